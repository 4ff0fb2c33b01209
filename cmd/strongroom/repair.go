package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"strongroom/activities/key"
	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/worker/pki"
)

type repairCommand struct {
	output
	Apply         bool     `help:"Do what the table says; else nothing is changed."`
	RemoveUnknown []string `placeholder:"SERVER" help:"Remove what exists of a server that is not on record, with its disks. Once for each."`
}

// Help is shown by --help.
func (repairCommand) Help() string {
	return `For after an older database was restored (docs/restore.md). It compares the database
with Temporal, the key manager, and, by an audit, with hosts and all services, and prints a
line for each difference that the restore explains, with what --apply does about it:

  execution       it runs in Temporal, and its operation is not on record: terminated
  operation       it is on record, and its execution ended or is gone: settled as failed
  key             a disk's secret is gone, and the key manager has one other that was
                  made for the disk: written into the record
  server          it is on record, and all of it is gone: deleted
  row             a row of the ledger whose thing is gone, and that the server does not
                  use any more: released
  thing           it exists without a row, and is a server's that is on record: the
                  row is written anew
  unknown server  what exists of a server that is not on record: nothing, unless it is named
                  with --remove-unknown; copy its data out before

Where nothing is done, the last column says why, and what people can do. Servers on which an
operation is at work are left alone. Nothing else is removed, neither on a host nor in
the key manager, and all of it may be run again at any time: an audit tells 500 findings
at most.

Run it where a control worker is configured, while one runs.

Exit code 0: nothing to repair, or all of it repaired; 1: something is left.`
}

func (c repairCommand) Run(r *run) error {
	b, err := r.openBackends(pki.Control, durable.Dial)
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.checkNamespace(r); err != nil {
		return err
	}
	s, err := b.services(r)
	if err != nil {
		return err
	}
	keys, err := s.keys()
	if err != nil {
		return err
	}
	p := repair{run: r, pool: b.pool, temporal: b.temporal, keys: keys}
	if p.remove, err = serverIDs(c.RemoveUnknown); err != nil {
		return err
	}
	result, err := p.find()
	if err != nil {
		return err
	}
	if c.Apply {
		if err := p.apply(&result); err != nil {
			return err
		}
	}
	if err := c.print(result, repairTable(result)); err != nil {
		return err
	}
	return result.err(c.Apply)
}

func serverIDs(texts []string) (out []compute.ServerID, err error) {
	for _, text := range texts {
		id, err := uuid.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("--remove-unknown: %q is no id of a server", text)
		}
		out = append(out, compute.ServerID{UUID: id})
	}
	return out, nil
}

// repair compares a database with the world, and mends what can be told.
type repair struct {
	*run
	pool     *pgxpool.Pool
	temporal client.Client
	keys     key.Manager
	remove   []compute.ServerID
}

// repairResult is what repair prints.
type repairResult struct {
	Damage []compute.Damage `json:"damage"`
	Looked []string         `json:"looked"`           // hosts and services
	Silent []string         `json:"silent,omitempty"` // those that did not answer
	Closed []string         `json:"closed,omitempty"` // where no credential lets strongroom look
	More   int              `json:"more,omitempty"`   // findings of the audit that were not told

	since      time.Time
	keys       []compute.KeyRepair
	executions []durable.Execution
}

func (p repair) find() (repairResult, error) {
	out := repairResult{Damage: []compute.Damage{}}
	var err error
	if out.since, err = ledger.Now(p, p.pool); err != nil {
		return out, err
	}
	if err := p.findOperations(&out); err != nil {
		return out, err
	}
	// One that began before may have seen what is gone by now.
	audit, err := runAudit(p, p.temporal, "", enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING)
	if err != nil {
		return out, err
	}
	out.Looked, out.Silent, out.Closed, out.More = audit.Looked, audit.Silent, audit.Closed, audit.More
	secrets, err := p.secrets()
	if err != nil {
		return out, err
	}
	if out.keys, err = p.findKeys(secrets, &out); err != nil {
		return out, err
	}
	known, err := ledger.KnownServers(p, p.pool, slices.Concat(compute.Servers(audit.Findings), p.remove))
	if err != nil {
		return out, err
	}
	for _, id := range p.remove {
		if s, ok := known[id]; ok && !s.Deleted {
			return out, fmt.Errorf("--remove-unknown: server %s is on record: delete it as any other", id)
		}
	}
	out.Damage = append(out.Damage, compute.FindDamage(compute.RepairInput{
		Findings: audit.Findings, Known: known, Secrets: secrets.byName(), Keys: out.keys, Remove: p.remove, Incomplete: out.More > 0,
	})...)
	return out, nil
}

func (r repairResult) err(applied bool) error {
	left, todo := 0, 0
	for _, d := range r.Damage {
		switch {
		case d.Applied:
		case d.Remedy != "":
			todo++
		default:
			left++
		}
	}
	switch {
	case todo > 0 && !applied:
		return fmt.Errorf("%d to be repaired: run it with --apply; %d for people to decide", todo, left)
	case todo+left > 0:
		return fmt.Errorf("%d are left", todo+left)
	case r.More > 0:
		return fmt.Errorf("the audit has %d more findings than it told: run it again", r.More)
	case len(r.Silent) > 0:
		return fmt.Errorf("no answer from %s", strings.Join(r.Silent, ", "))
	}
	return nil
}

func repairTable(result repairResult) func(*sheet) {
	return func(w *sheet) {
		if len(result.Damage) > 0 {
			w.header("DAMAGE", "SERVER", "NAME", "REPAIR", "WHY")
		}
		for _, d := range result.Damage {
			server, remedy := d.Server.String(), string(d.Remedy)
			if d.Server == (compute.ServerID{}) {
				server = ""
			}
			switch {
			case d.Applied:
				remedy = "done: " + remedy
			case remedy == "":
				remedy = "none"
			}
			w.row(d.What, server, d.Name, remedy, d.Why)
		}
		w.note(fmt.Sprintf("%d differences, looked at: %s", len(result.Damage), strings.Join(result.Looked, ", ")))
		for _, closed := range result.Closed {
			w.note("not looked at, since no credential opens it: " + closed)
		}
	}
}
