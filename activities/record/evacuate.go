package record

import (
	"context"
	"time"

	"github.com/google/uuid"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

var (
	// LeaveHost sees that a server's host is down, and notes that the server leaves it.
	LeaveHost = durable.Activity[LeaveHostInput, durable.None]{
		Name: "record.LeaveHost", Queue: durable.RecordQueue,
		Summary: func(LeaveHostInput) string { return "see that the host is down, and note that the server leaves it" },
	}
	// Evacuate decides an evacuate.
	Evacuate = durable.Activity[EvacuateInput, durable.None]{
		Name: "record.Evacuate", Queue: durable.RecordQueue,
		Summary: func(in EvacuateInput) string { return stepSummary("decide the evacuate", in.Close, nil) },
	}
)

// EvacuationType is the type of the migration of an evacuate.
const EvacuationType = "evacuation"

// The statuses of an evacuation. It is completed when its host has nothing of the server any
// more. One that failed is "failed".
const (
	evacuationAccepted = "accepted"
	evacuationLeaving  = "pre-migrating"
	evacuationDone     = "done"
)

// leftReason is the reason of what waits on a host that its server has left.
const leftReason = "the server was evacuated from its host, which is down"

// LeaveHostInput names the host that a server is to leave.
type LeaveHostInput struct {
	durable.OperationInput
	From compute.HostID `json:"from"`
}

// LeaveHost is the activity record.LeaveHost. From here on, until the operation ends, the host
// does not run the server, should it come back: it asks for such servers before it takes any
// work, and whenever it says that it runs. Conflict: it is not down, or may not be fenced.
func (a *Activities) LeaveHost(ctx context.Context, in LeaveHostInput) error {
	return fence.Owned(ctx, a.Pool, in.Operation, in.Server, func(q *schema.Queries) error {
		if err := lockFenced(ctx, q, in.From); err != nil {
			return err
		}
		return q.SetMigrationStatus(ctx, schema.SetMigrationStatusParams{Status: evacuationLeaving, OperationID: in.Operation})
	})
}

// lockFenced refuses, with Conflict, a host that is not down, or of which neither its operator has said that it
// is fenced, nor its lease expired, by the database's clock. The lock is the one that the host needs to say that it runs.
func lockFenced(ctx context.Context, q *schema.Queries, id compute.HostID) error {
	host, err := q.LockFenced(ctx, id)
	if err != nil {
		return err
	}
	is := compute.Fencing{
		ForcedDown: host.ForcedDown, Silent: time.Duration(host.Silent * float64(time.Second)), After: time.Duration(host.FenceAfter) * time.Second,
	}
	if err := is.Check(host.Name); err != nil {
		return compute.Errorf(compute.Conflict, "%w", err)
	}
	return nil
}

// EvacuateInput says what a server is after an evacuate, and which host it has left.
type EvacuateInput struct {
	durable.OperationInput
	From  compute.HostID `json:"from"`
	To    compute.Server `json:"to"`
	Close *Close         `json:"close,omitempty"`

	SharedTPM   bool `json:"shared_tpm,omitempty"`   // the state of its vTPM is on storage that both hosts share
	SharedDisks bool `json:"shared_disks,omitempty"` // its disks are
}

// Evacuate is the activity record.Evacuate: the decision of an evacuate. From here on the
// server is on its new host. What it had on the other one waits there, with its claim given
// back. Running again after it took effect is a success.
//
// Files on storage that both hosts share have one row on the ledger, which names the host that may remove them. Until here that is the old host,
// whatever the new one does with them: the undo of the evacuate removes none, and the old host removes none, since it is down and
// none waits. Here, in the transaction that says where the server is, all of these rows become the new host's, with the ids and
// states that they have, before what is left on the old host is set to wait: so none of them ever waits for the old
// host to remove it. When it returns, or is forgotten, it has a domain to remove, and no file.
func (a *Activities) Evacuate(ctx context.Context, in EvacuateInput) error {
	d := decision{OperationInput: in.OperationInput, close: in.Close}
	d.alreadyDecided = func(q *schema.Queries) (bool, error) {
		row, err := q.GetServer(ctx, in.Server)
		return row.HostID != nil && *row.HostID == *in.To.Host, err
	}
	d.do = func(q *schema.Queries) error {
		if err := moveServer(ctx, q, in.OperationInput, in.To, schema.MoveServerParams{}); err != nil {
			return err
		}
		if in.To.TPMBackup == nil {
			if err := q.ForgetTPMBackup(ctx, in.Server); err != nil {
				return err
			}
		}
		if err := q.DeleteOtherClaims(ctx, schema.DeleteOtherClaimsParams{ServerID: in.Server, OperationID: in.Operation}); err != nil {
			return err
		}
		if in.SharedTPM { // it does not wait for the host that is left
			if err := passTPM(ctx, q, in.Server, &in.From, in.To.Host); err != nil {
				return err
			}
		}
		if in.SharedDisks { // nor do these
			if err := passDisks(ctx, q, in); err != nil {
				return err
			}
		}
		if err := q.LeaveHost(ctx, schema.LeaveHostParams{ServerID: in.Server.UUID, HostID: in.From.UUID, Reason: leftReason}); err != nil {
			return err
		}
		if err := q.SetMigrationStatus(ctx, schema.SetMigrationStatusParams{Status: evacuationDone, OperationID: in.Operation}); err != nil {
			return err
		}
		return q.CompleteEvacuations(ctx, schema.CompleteEvacuationsParams{Servers: []uuid.UUID{in.Server.UUID}})
	}
	return a.decide(ctx, d)
}

// passDisks says that the files of a server are the new host's from here on.
func passDisks(ctx context.Context, q *schema.Queries, in EvacuateInput) error {
	if err := q.PassDisks(ctx, schema.PassDisksParams{ServerID: in.Server.UUID, FromHost: in.From.UUID, ToHost: in.To.Host.UUID}); err != nil {
		return err
	}
	return q.ReleasePassed(ctx, schema.ReleasePassedParams{ServerID: in.Server.UUID, FromHost: in.From.UUID})
}

// noteEndorsement says that the certificates that were issued for the vTPM which the operation made are those of the server's. It
// comes after the record of the vTPM is written, and before setNewTPM. ofNew: only where the server's vTPM was to be made.
func noteEndorsement(ctx context.Context, q *schema.Queries, in durable.OperationInput, ofNew bool) error {
	return q.NoteEndorsement(ctx, schema.NoteEndorsementParams{ServerID: in.Server, OperationID: string(in.Operation), OfNew: ofNew})
}

func setNewTPM(ctx context.Context, q *schema.Queries, server compute.ServerID, isNew bool) error {
	if isNew {
		return q.SetSystemMetadata(ctx, schema.SetSystemMetadataParams{ServerID: server, Key: compute.SystemNewTPM, Value: "yes"})
	}
	return q.DeleteSystemMetadata(ctx, schema.DeleteSystemMetadataParams{ServerID: server, Key: compute.SystemNewTPM})
}
