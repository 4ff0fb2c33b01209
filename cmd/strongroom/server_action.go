package main

import (
	"context"
	"errors"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"strongroom/client"
)

// serverAction is what every action on servers is told.
type serverAction struct {
	cloud
	output
	wait
	Servers []string `arg:"" name:"server" help:"Servers, by id or name."`
}

// begun is an operation that was asked for.
type begun struct {
	server    *servers.Server
	operation string
}

// body asks for an action in its body, in the version that has the targets of moves.
func (c serverAction) body(r *run, action map[string]any) error {
	return c.act(r, func(ctx context.Context, compute *gophercloud.ServiceClient, s *servers.Server) (string, error) {
		return client.Act(ctx, compute, s.ID, action)
	})
}

// act asks for an action on each server, waits for the operations that it begins where that is wanted, and shows the servers. What
// fails with one server keeps it not from the others.
func (c serverAction) act(r *run, do func(ctx context.Context, compute *gophercloud.ServiceClient, s *servers.Server) (operation string, err error)) error {
	compute, err := c.compute(r)
	if err != nil {
		return err
	}
	b, all := newBatch("server", c.Servers), map[string]begun{}
	b.each(c.Servers, func(name string) error {
		s, err := findServer(r, compute, name)
		if err != nil {
			return err
		}
		operation, err := do(r, compute, s)
		all[name] = begun{s, operation}
		return explain(err)
	})
	if c.Wait {
		b.each(c.Servers, func(name string) error {
			_, err := c.under(r, client.Extend(compute), all[name].server.ID, all[name].server.Name, all[name].operation)
			return err
		})
	}
	return errors.Join(c.shown(r, compute, b, all), b.err())
}

// shown shows the servers with which all went well: one as show does, several as list does.
func (c serverAction) shown(r *run, compute *gophercloud.ServiceClient, b *batch, all map[string]begun) error {
	list := []servers.Server{}
	for _, name := range c.Servers {
		if b.failed[name] != nil {
			continue
		}
		if b.total == 1 {
			return serverShow{cloud: c.cloud, output: c.output, Servers: []string{all[name].server.ID}}.Run(r)
		}
		s, err := servers.Get(r, compute, all[name].server.ID).Extract()
		if err != nil {
			return explain(err)
		}
		list = append(list, *s)
	}
	if len(list) == 0 {
		return nil
	}
	return c.print(list, serverTable(list, false))
}

type serverStart struct{ serverAction }

// Help is shown by --help.
func (serverStart) Help() string {
	return `With --wait a start that fails ends at once, with its cause:

  $ strongroom server start vault --wait
  strongroom: start (req-…) failed: …`
}

func (c serverStart) Run(r *run) error { return c.body(r, map[string]any{"os-start": nil}) }

type serverStop struct{ serverAction }

func (c serverStop) Run(r *run) error { return c.body(r, map[string]any{"os-stop": nil}) }

type serverReboot struct {
	serverAction
	Hard bool `help:"Switch it off and boot it afresh, whatever the guest does."`
}

func (c serverReboot) Run(r *run) error {
	how := "SOFT"
	if c.Hard {
		how = "HARD"
	}
	return c.body(r, map[string]any{"reboot": map[string]any{"type": how}})
}

type serverSuspend struct{ serverAction }

func (c serverSuspend) Run(r *run) error { return c.body(r, map[string]any{"suspend": nil}) }

type serverResume struct{ serverAction }

func (c serverResume) Run(r *run) error { return c.body(r, map[string]any{"resume": nil}) }

type serverPause struct{ serverAction }

func (c serverPause) Run(r *run) error { return c.body(r, map[string]any{"pause": nil}) }

type serverUnpause struct{ serverAction }

func (c serverUnpause) Run(r *run) error { return c.body(r, map[string]any{"unpause": nil}) }

type serverDelete struct {
	cloud
	wait
	Servers []string `arg:"" name:"server" help:"Servers, by id or name."`
}

// Help is shown by --help.
func (serverDelete) Help() string {
	return `A delete wins over whatever else is being done to the server. It removes the disks, their keys, the vTPM's state and
all else that the server has; images of it stay.

  strongroom server delete vault --wait
  strongroom server delete web-1 web-2 web-3`
}

func (c serverDelete) Run(r *run) error {
	compute, err := c.compute(r)
	if err != nil {
		return err
	}
	own := client.Extend(compute)
	b, all := newBatch("server", c.Servers), map[string]begun{}
	b.each(c.Servers, func(name string) error {
		s, err := findServer(r, compute, name)
		if err != nil {
			return err
		}
		deleted := servers.Delete(r, compute, s.ID)
		all[name] = begun{s, client.OperationID(deleted.Header)}
		return explain(deleted.Err)
	})
	if c.Wait {
		b.each(c.Servers, func(name string) error {
			s := all[name].server
			op, err := deleteOf(r, own, s.ID, all[name].operation)
			if err == nil {
				_, err = c.under(r, own, s.ID, s.Name, op)
			}
			return err
		})
	}
	return b.err()
}

// deleteOf is the operation that deletes a server: not that of this request, where another one came before.
func deleteOf(ctx context.Context, own *gophercloud.ServiceClient, server, asked string) (string, error) {
	operations, err := client.ListOperations(ctx, own, server)
	if err != nil {
		return "", explain(err)
	}
	for _, op := range operations {
		if op.Kind == "delete" {
			return op.ID, nil
		}
	}
	return asked, nil
}
