package record

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// Begin checks that an operation may begin, and gives it its server.
var Begin = durable.Activity[durable.OperationInput, BeginResult]{
	Name: "record.Begin", Queue: durable.RecordQueue,
	Summary: func(durable.OperationInput) string { return "begin the operation" },
}

// BeginResult is what an operation works with. Superseded says that the operation
// may not begin: another one has taken over the server. Arguments are only what the
// kind's Action declares: other text of the request must not get into a history.
type BeginResult struct {
	Superseded bool `json:"superseded,omitempty"`

	Kind compute.OperationKind `json:"kind,omitempty"`

	Credential compute.Credential `json:"credential"`
	Server     compute.Server     `json:"server"`
	Host       *durable.Host      `json:"host,omitempty"` // where the server is
	// HostFormat is the host's default encryption format, for new disks (EE-03).
	HostFormat compute.DiskFormat `json:"host_format,omitempty"`
	Arguments  json.RawMessage    `json:"arguments,omitempty"`
	// BacksUpTPM: the state of its vTPM is backed up where that is possible.
	BacksUpTPM bool `json:"backs_up_tpm,omitempty"`
	// TooLarge says that the server's record does not go through Temporal, and the operation cannot be carried out: Server is without what makes it so.
	TooLarge string `json:"too_large,omitempty"`
	// Began is when the operation did, by the database's clock: what waited on the ledger
	// before is not what it makes.
	Began time.Time `json:"began,omitzero"`
}

// Begin is the activity record.Begin: the fence at an operation's start. Run again for an operation that has begun, it gives the server as
// it is by then (N2): workflows end the workflow task of it before they decide anything.
func (a *Activities) Begin(ctx context.Context, in durable.OperationInput) (BeginResult, error) {
	var out BeginResult
	err := a.transaction(ctx, func(q *schema.Queries) error {
		rows, err := q.BeginOperation(ctx, in.Operation)
		if err != nil {
			return err
		}
		if rows == 0 {
			out = BeginResult{Superseded: true}
			op, err := q.GetOperation(ctx, in.Operation)
			if err != nil {
				return err
			}
			if err := cutOff(ctx, q, op); err != nil {
				return err
			}
			return a.settle(ctx, q, in.Operation, compute.OperationCancelled, fence.Message, nil)
		}
		if out, err = a.load(ctx, q, in); err != nil {
			return err
		}
		if err := a.Notifications.Began(ctx, q, in.Operation); err != nil {
			return err
		}
		if status, former := deciding[out.Kind], out.Server.Former; status != "" && former != nil {
			return q.SetMigrationStatus(ctx, schema.SetMigrationStatusParams{Status: status, OperationID: former.Operation})
		}
		if out.Kind != compute.OpDelete {
			return nil
		}
		return q.DecideKept(ctx, in.Server.UUID) // there will be no state
	})
	if err != nil {
		return BeginResult{}, err
	}
	if large := durable.Fits("the record of the server", out); large != nil {
		out.Server, out.Arguments, out.TooLarge = withoutUnbounded(out.Server), nil, large.Error()
	}
	return out, nil
}

func (a *Activities) load(ctx context.Context, q *schema.Queries, in durable.OperationInput) (BeginResult, error) {
	op, err := q.GetOperation(ctx, in.Operation)
	if err != nil {
		return BeginResult{}, err
	}
	action, err := compute.ActionOf(op.Kind)
	if err != nil {
		return BeginResult{}, err
	}
	if action.Boots || op.Kind == compute.OpDelete { // a key on no ledger would not go with its server
		if err := a.meetsLegacyKey(ctx, q, op.ServerID); err != nil {
			return BeginResult{}, err
		}
	}
	out := BeginResult{Kind: op.Kind, Credential: op.Operation().Credential}
	if op.StartedAt != nil {
		out.Began = *op.StartedAt
	}
	if out.Arguments, err = action.Keep(op.Arguments); err != nil {
		return BeginResult{}, compute.Errorf(compute.Invalid, "operation %s has no arguments of a %s", op.ID, op.Kind)
	}
	if in.Server == (compute.ServerID{}) {
		return out, nil
	}
	if out.Server, err = schema.LoadServer(ctx, q, in.Server); err != nil {
		return out, err
	}
	if op.Kind == compute.OpDelete { // it goes by the ledger, and needs nothing that a tenant can make large (K15)
		out.Server = withoutUnbounded(out.Server)
	}
	if out.Server.Host == nil {
		return out, nil
	}
	out.BacksUpTPM = a.TPMBackupInterval > 0 && out.Server.TPM != nil
	host, err := q.ClaimedHost(ctx, *out.Server.Host)
	out.Host = &durable.Host{ID: *out.Server.Host, Name: host.Name}
	for i := range out.Server.Shares {
		if s := &out.Server.Shares[i]; s.Protocol == compute.NFSShare {
			s.Address = host.ShareAddress
		}
	}
	out.HostFormat = compute.Host{Default: host.DefaultFormat}.DefaultFormat()
	return out, err
}

// withoutUnbounded gives a server without the fields whose size its tenant decides: the records of images, interfaces and shares.
func withoutUnbounded(s compute.Server) compute.Server {
	s.Image = compute.Image{ID: s.Image.ID}
	s.Networks, s.Shares = nil, nil
	s.Disks = slices.Clone(s.Disks)
	for i := range s.Disks {
		s.Disks[i].Source = nil
	}
	return s
}

// meetsLegacyKey moves the legacy key of a server that is about to be booted or deleted.
// One that cannot be moved stays, and `strongroom legacy status` says why.
func (a *Activities) meetsLegacyKey(ctx context.Context, q *schema.Queries, server compute.ServerID) error {
	_, err := a.legacyKeys().MoveWith(ctx, q, server)
	if compute.Is(err, compute.Conflict) {
		return nil
	}
	return err
}
