package record

import (
	"context"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

var (
	// LiveMigrated is the point of no return of a live migration: the guest runs on its new host.
	LiveMigrated = durable.Activity[LiveMigratedInput, durable.None]{
		Name: "record.LiveMigrated", Queue: durable.RecordQueue,
		Summary: func(in LiveMigratedInput) string { return stepSummary("note that the server has moved", in.Close, nil) },
	}
	// NoteFenced sees that the host that a guest may have come to is down and fenced, and notes that
	// it does not run there.
	NoteFenced = durable.Activity[NoteFencedInput, durable.None]{
		Name: "record.NoteFenced", Queue: durable.RecordQueue,
		Summary: func(NoteFencedInput) string {
			return "see that the new host is down, and note that the guest does not run there"
		},
	}
)

// LiveMigratedInput is a server as it is on the host that it came to.
type LiveMigratedInput struct {
	durable.OperationInput
	To    compute.Server `json:"to"`
	Close *Close         `json:"close,omitempty"` // the step before
}

// TypeLiveMigration is the type of a live migration in the API.
const TypeLiveMigration = "live-migration"

// The statuses of live migrations.
const (
	livePreparing = "preparing"
	liveRunning   = "running"
	livePost      = "post-migrating"
	liveCompleted = "completed"
)

// LiveMigrated is the activity record.LiveMigrated: from here on the server is on its new host, and
// the claim on the other one is given back. Running again after it took effect is a success.
func (a *Activities) LiveMigrated(ctx context.Context, in LiveMigratedInput) error {
	if in.To.Host == nil {
		return compute.Errorf(compute.Invalid, "server %s has moved to no host", in.Server)
	}
	d := decision{OperationInput: in.OperationInput, close: in.Close}
	d.alreadyDecided = func(q *schema.Queries) (bool, error) {
		is, err := schema.LoadServer(ctx, q, in.Server)
		return is.Host != nil && *is.Host == *in.To.Host, err
	}
	d.do = func(q *schema.Queries) error {
		if err := moveServer(ctx, q, in.OperationInput, in.To, schema.MoveServerParams{}); err != nil {
			return err
		}
		if err := q.DeleteOtherClaims(ctx, schema.DeleteOtherClaimsParams{ServerID: in.Server, OperationID: in.Operation}); err != nil {
			return err
		}
		return q.SetMigrationStatus(ctx, schema.SetMigrationStatusParams{Status: livePost, OperationID: in.Operation})
	}
	return a.decide(ctx, d)
}

// NoteFencedInput names the host that a server was to come to with its guest.
type NoteFencedInput struct {
	durable.OperationInput
	Host compute.HostID `json:"host"`
}

// NoteFenced is the activity record.NoteFenced. From here on, as long as something of the server is
// there, the host stops the guest, should it come back (gateway.Evacuated). Conflict: it is not down, or may not be
// fenced.
func (a *Activities) NoteFenced(ctx context.Context, in NoteFencedInput) error {
	return fence.Owned(ctx, a.Pool, in.Operation, in.Server, func(q *schema.Queries) error {
		if err := lockFenced(ctx, q, in.Host); err != nil {
			return err
		}
		return q.NoteFenced(ctx, schema.NoteFencedParams{OperationID: in.Operation, HostID: &in.Host})
	})
}
