package record

import (
	"context"
	"encoding/json"
	"errors"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// BeginResult is what an operation works with. Superseded says that the
// operation may not begin: the server belongs to another one by now. The
// arguments have a type for each kind: what a request said in its own words has
// no place in a history.
type BeginResult struct {
	Superseded bool                     `json:"superseded,omitempty"`
	Credential compute.Credential       `json:"credential"`
	Reboot     *compute.RebootArguments `json:"reboot,omitempty"`
	Server     compute.Server           `json:"server"`

	Snapshot *compute.SnapshotArguments `json:"snapshot,omitempty"`
	Rebuild  *compute.Rebuild           `json:"rebuild,omitempty"`
	Rotate   *compute.RotateArguments   `json:"rotate,omitempty"`

	Rescue *compute.RescueArguments `json:"rescue,omitempty"`

	HostName string `json:"host_name,omitempty"`
}

// Begin is the activity record.Begin: the fence at an operation's start. It may
// run again for the operation that it let in.
func (a *Activities) Begin(ctx context.Context, in durable.OperationInput) (BeginResult, error) {
	var out BeginResult
	err := a.tx(ctx, func(q *schema.Queries) error {
		rows, err := q.BeginOperation(ctx, in.Operation)
		if err != nil {
			return err
		}
		if rows == 0 {
			out = BeginResult{Superseded: true}
			return settle(ctx, q, in, compute.OperationCancelled, superseded)
		}
		out, err = a.load(ctx, q, in)
		return err
	})
	return out, err
}

func (a *Activities) load(ctx context.Context, q *schema.Queries, in durable.OperationInput) (BeginResult, error) {
	op, err := q.GetOperation(ctx, in.Operation)
	if err != nil {
		return BeginResult{}, err
	}
	if err := a.meetsLegacyKey(ctx, q, op); err != nil {
		return BeginResult{}, err
	}
	server, err := LoadServer(ctx, q, in.Server)
	if err != nil {
		return BeginResult{}, err
	}
	out := BeginResult{Credential: Operation(op).Credential, Server: server}
	if err := out.arguments(op.Kind, op.Arguments); err != nil {
		return BeginResult{}, compute.Errorf(compute.Invalid, "operation %s has no arguments of a %s", op.ID, op.Kind)
	}
	if server.Host != nil {
		if out.HostName, err = q.HostName(ctx, *server.Host); err != nil {
			return BeginResult{}, err
		}
	}
	return out, nil
}

// arguments reads those of the kinds that have some.
func (b *BeginResult) arguments(kind compute.OperationKind, text []byte) error {
	var into any
	switch kind {
	case compute.OpReboot:
		b.Reboot = &compute.RebootArguments{}
		into = b.Reboot
	case compute.OpCreateImage, compute.OpCreateBackup:
		b.Snapshot = &compute.SnapshotArguments{}
		into = b.Snapshot
	case compute.OpRebuild:
		b.Rebuild = &compute.Rebuild{} // what else it changes is for the record alone
		into = b.Rebuild
	case compute.OpRotateKeys:
		b.Rotate = &compute.RotateArguments{}
		into = b.Rotate
	case compute.OpRescue:
		b.Rescue = &compute.RescueArguments{}
		into = b.Rescue
	default:
		return nil
	}
	if string(text) == "null" {
		return errNone
	}
	return json.Unmarshal(text, into)
}

var errNone = errors.New("no arguments")

// Operation gives an operations row as the field knows it.
func Operation(row schema.Operation) compute.Operation {
	op := compute.Operation{
		ID: row.ID, ServerID: row.ServerID, Kind: row.Kind, State: row.State,
		Credential: compute.Credential{ID: row.CredentialID, ProjectID: row.ProjectID, UserID: row.UserID},
		Arguments:  row.Arguments, AcceptedAt: row.AcceptedAt,
	}
	if row.Message != nil {
		op.Message = *row.Message
	}
	return op
}
