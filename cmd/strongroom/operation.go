package main

import (
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"strongroom/client"
)

type operationCommand struct {
	List   operationList   `cmd:"" help:"List the operations of servers, the newest first."`
	Show   operationShow   `cmd:"" help:"Show an operation with its steps."`
	Watch  operationWatch  `cmd:"" help:"Wait for the end of an operation, with progress."`
	Cancel operationCancel `cmd:"" help:"Have an operation undo what it has done."`
}

// Help is shown by --help.
func (operationCommand) Help() string {
	return `Whatever is done to a server is an operation: it ends with its effect, or with all of it undone and a reason. Its id is
that of the request that asked for it (x-openstack-request-id).

  strongroom operation list                          # what is under way
  strongroom operation list vault
  strongroom operation show vault                    # the newest one, step by step
  strongroom operation watch vault req-7f0c…         # until it has ended; exit code 1: it failed
  strongroom operation cancel vault --wait`
}

type operationList struct {
	cloud
	output
	long
	Servers     []string `arg:"" optional:"" name:"server" help:"Servers, by id or name; one that was deleted by its id. Without any: what is under way, on all servers."`
	AllProjects bool     `help:"Without servers: on every project's (for administrators)."`
	State       string   `enum:",accepted,running,succeeded,failed,cancelled" default:"" help:"Only those in this state: accepted, running, succeeded, failed or cancelled."`
}

// Help is shown by --help.
func (operationList) Help() string {
	return `  strongroom operation list                          # what is under way
  strongroom operation list vault --state failed     # why did it fail?
  strongroom operation list vault -o json`
}

func (c operationList) Run(r *run) error {
	compute, err := c.compute(r)
	if err != nil {
		return err
	}
	underWay := len(c.Servers) == 0
	if underWay {
		if c.Servers, err = busy(r, compute, c.AllProjects); err != nil {
			return err
		}
	}
	type listed struct {
		client.Operation
		Server string `json:"server_id"`
		name   string
	}
	b, all := newBatch("server", c.Servers), []listed{}
	b.each(c.Servers, func(name string) error {
		id, name, err := serverID(r, compute, name)
		if err != nil {
			return err
		}
		operations, err := client.ListOperations(r, client.Extend(compute), id)
		for _, op := range operations {
			if (c.State == "" || op.State == c.State) && !(underWay && op.Settled()) {
				op.Events = nil
				all = append(all, listed{op, id, name})
			}
		}
		return explain(err)
	})
	err = c.print(all, func(w *sheet) {
		columns := []string{"ID", "SERVER", "KIND", "STATE", "ACCEPTED", "MESSAGE"}
		if c.Long {
			columns = append(columns, "STARTED", "FINISHED", "USER")
		}
		w.header(columns...)
		for _, op := range all {
			cells := []any{op.ID, op.name, op.Kind, op.State, op.AcceptedAt.Format(time.RFC3339), op.Message}
			if c.Long {
				cells = append(cells, when(op.StartedAt), when(op.FinishedAt), op.UserID)
			}
			w.row(cells...)
		}
	})
	if err == nil {
		err = b.err()
	}
	return err
}

// busy are the servers to which something is done.
func busy(r *run, compute *gophercloud.ServiceClient, allProjects bool) (ids []string, err error) {
	pages, err := servers.List(compute, servers.ListOpts{AllTenants: allProjects}).AllPages(r)
	if err != nil {
		return nil, explain(err)
	}
	all, err := servers.ExtractServers(pages)
	for _, s := range all {
		if s.TaskState != "" {
			ids = append(ids, s.ID)
		}
	}
	return ids, err
}

// when is a time that may not have come.
func when(t *client.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339)
}

// serverID finds a server, or takes the id of one that may be deleted.
func serverID(r *run, compute *gophercloud.ServiceClient, nameOrID string) (id, name string, err error) {
	if isUUID(nameOrID) {
		if s, err := servers.Get(r, compute, nameOrID).Extract(); err == nil {
			return s.ID, s.Name, nil
		}
		return nameOrID, nameOrID, nil
	}
	s, err := findServer(r, compute, nameOrID)
	if err != nil {
		return "", "", err
	}
	return s.ID, s.Name, nil
}

// ofServer names an operation.
type ofServer struct {
	cloud
	Server    string `arg:"" help:"Server, by id or name; one that was deleted by its id."`
	Operation string `arg:"" optional:"" help:"Id of the operation; the newest one by default."`
}

// find finds the operation; own speaks strongroom's extensions.
func (c ofServer) find(r *run) (own *gophercloud.ServiceClient, server, name string, op client.Operation, err error) {
	compute, err := c.compute(r)
	if err != nil {
		return nil, "", "", op, err
	}
	own = client.Extend(compute)
	if server, name, err = serverID(r, compute, c.Server); err != nil {
		return own, "", "", op, err
	}
	if c.Operation != "" {
		op, err = client.GetOperation(r, own, server, c.Operation)
		return own, server, name, op, explain(err)
	}
	all, err := client.ListOperations(r, own, server)
	if err == nil && len(all) > 0 {
		op = all[0]
	}
	return own, server, name, op, explain(err)
}

type operationShow struct {
	ofServer
	output
}

func (c operationShow) Run(r *run) error {
	_, _, _, op, err := c.find(r)
	if err != nil {
		return err
	}
	return c.print(op, operationTable(op))
}

func operationTable(op client.Operation) func(*sheet) {
	return func(w *sheet) {
		w.row("id", op.ID)
		w.row("kind", op.Kind)
		w.row("state", op.State)
		w.row("message", op.Message)
		w.row("accepted", op.AcceptedAt.Format(time.RFC3339))
		w.row("started", when(op.StartedAt))
		w.row("finished", when(op.FinishedAt))
		if op.Progress != nil {
			w.row("progress", op.Progress.Phase+" "+amount(*op.Progress))
		}
		for _, e := range op.Events {
			state := e.Result
			if e.FinishTime == nil {
				state = "under way"
			}
			took := ""
			if e.FinishTime != nil {
				took = e.FinishTime.Sub(e.StartTime.Time).Round(time.Millisecond).String()
			}
			w.row("step", e.StartTime.Format(time.RFC3339)+" "+e.Event+" "+state+" "+took+" "+e.Host+" "+e.Details)
		}
	}
}

type operationWatch struct {
	ofServer
	output
	Timeout time.Duration `default:"24h" help:"How long to wait. The operation goes on after it."`
}

// Help is shown by --help.
func (operationWatch) Help() string {
	return `Exit code 0: it succeeded; 1: it failed or was cancelled, and why; 3: it goes on after --timeout.`
}

func (c operationWatch) Run(r *run) error {
	own, server, name, op, err := c.find(r)
	if err != nil {
		return err
	}
	if op, err = (wait{Timeout: c.Timeout}).under(r, own, server, name, op.ID); err != nil {
		return err
	}
	return c.print(op, operationTable(op))
}

type operationCancel struct {
	ofServer
	output
	wait
}

// Help is shown by --help.
func (operationCancel) Help() string {
	return `What it has made is undone, and the server is as it was before. An operation that is past the point from which on it only
goes forward succeeds all the same: --wait tells. A delete cannot be cancelled.`
}

func (c operationCancel) Run(r *run) error {
	own, server, name, op, err := c.find(r)
	if err != nil {
		return err
	}
	if err := client.CancelOperation(r, own, server, op.ID); err != nil {
		return explain(err)
	}
	if !c.Wait {
		return nil
	}
	op, err = c.under(r, own, server, name, op.ID)
	if err != nil && op.State != client.Cancelled {
		return err
	}
	return c.print(op, operationTable(op))
}
