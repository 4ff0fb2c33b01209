package record

import (
	"context"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/durable/outbox"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// TPMBackup notes a backup of the state of a server's vTPM.
var TPMBackup = durable.Activity[TPMBackupInput, durable.None]{
	Name: "record.TPMBackup", Queue: durable.RecordQueue,
	Summary: func(in TPMBackupInput) string { return stepSummary("note the backup of the TPM state", in.Close, nil) },
}

// TPMBackupInput is an object that was read back and compared.
type TPMBackupInput struct {
	durable.OperationInput
	Stored compute.StoredTPM `json:"stored"`
	Of     compute.TPM       `json:"of"`
	Final  bool              `json:"final,omitempty"` // the guest is off
	Same   bool              `json:"same,omitempty"`  // it is the backup that the server has
	Close  *Close            `json:"close,omitempty"`
}

// TPMBackup is the activity record.TPMBackup: from here on an evacuate of the server restores its
// vTPM from the object. Another object than before is the next generation; the same one says that
// the state has not changed. Either is good as of the time that the operation was accepted: an attempt that died may have stored
// the object long before this. Running again after it took effect is a success. Conflict: the state is still to be put back.
func (a *Activities) TPMBackup(ctx context.Context, in TPMBackupInput) error {
	d := decision{OperationInput: in.OperationInput, close: in.Close}
	isNoted := func(row schema.Server) bool { return row.TPMBackup != nil && row.TPMBackup.Operation == in.Operation }
	d.alreadyDecided = func(q *schema.Queries) (bool, error) {
		row, err := q.GetServer(ctx, in.Server)
		return isNoted(row), err
	}
	d.do = func(q *schema.Queries) error {
		row, err := q.GetServer(ctx, in.Server)
		if err != nil || isNoted(row) {
			return err
		}
		if err := schema.HasTPMBack(ctx, q, in.Server); err != nil { // what was stored is not what it is to be
			return err
		}
		op, err := q.GetOperation(ctx, in.Operation)
		if err != nil {
			return err
		}
		is := compute.TPMBackup{StoredTPM: in.Stored, Of: in.Of, Generation: row.TPMBackups, At: op.AcceptedAt, Final: in.Final, Operation: in.Operation}
		if !in.Same {
			is.Generation++
		}
		return q.SetTPMBackup(ctx, schema.SetTPMBackupParams{ID: in.Server, OperationID: in.Operation, IsNew: !in.Same, TPMBackup: &is})
	}
	return a.decide(ctx, d)
}

// forgetTPMBackup forgets a backup that is of another vTPM than the server has now.
func forgetTPMBackup(ctx context.Context, q *schema.Queries, server compute.ServerID) error {
	s, err := schema.LoadServer(ctx, q, server)
	if err != nil || s.TPMBackup == nil || s.Backup() != nil {
		return err
	}
	return q.ForgetTPMBackup(ctx, server)
}

// How many backups are under way at once, at most, that nobody asked for.
const (
	mostTPMBackups        = 50
	mostTPMBackupsPerHost = 4
)

// BeginTPMBackups gives servers whose time for a backup of their vTPM's state has come
// (control.tpm_backup_interval) to operations that make it. These are still to be started.
func (a *Activities) BeginTPMBackups(ctx context.Context) ([]compute.Operation, error) {
	if a.TPMBackupInterval <= 0 {
		return nil, nil
	}
	// None begins on a host that is about to count as down: it would hold up an evacuate.
	due, err := schema.New(a.Pool).DueTPMBackups(ctx, schema.DueTPMBackupsParams{
		Every: a.TPMBackupInterval.Seconds(), HostTimeout: (compute.HostTimeout / 2).Seconds(), PerHost: mostTPMBackupsPerHost, Most: mostTPMBackups,
	})
	if err != nil {
		return nil, fence.Unavailable(err)
	}
	return beginEach(ctx, due, func(row schema.DueTPMBackupsRow) (compute.Operation, bool, error) {
		op := ownOperation(compute.OpBackUpTPM, compute.ServerID{UUID: row.ID}, row.ProjectID)
		won, err := a.takeForTPMBackup(ctx, op, compute.VMState(row.VMState))
		return op, won, err
	})
}

func (a *Activities) takeForTPMBackup(ctx context.Context, op compute.Operation, from compute.VMState) (won bool, err error) {
	err = a.transaction(ctx, func(q *schema.Queries) error {
		rows, err := q.TakeServerForTPMBackup(ctx, schema.TakeServerForTPMBackupParams{
			ID: op.ServerID, Task: compute.BackUpTPM.Transition.Task, OperationID: op.ID, FromVmState: from,
		})
		won = rows > 0
		if err != nil || !won {
			return err
		}
		if err := q.DeleteTPMBackupOperations(ctx, schema.DeleteTPMBackupOperationsParams{ServerID: op.ServerID, OperationID: op.ID}); err != nil {
			return err
		}
		return outbox.Accept(ctx, q, op, nil)
	})
	return won && err == nil, err
}
