package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/object"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/compute"
	"strongroom/durable"
)

// BackUpTPM keeps a copy of the state of a server's vTPM as an object, for an evacuate (TPM-30).
// It holds the server for a moment only: what does not answer soon ends it, long before a server may be
// evacuated from a host that is silent, and it is tried again at the next time. When it fails or is cancelled, the backup before it is still there.
func BackUpTPM(ctx workflow.Context, in durable.OperationInput) error {
	return onMachine(ctx, in, func(m *machine) body { return &backUpTPM{m} })
}

type backUpTPM struct{ *machine }

func (b *backUpTPM) run(ctx workflow.Context) error {
	ctx, err := b.keepBackup(ctx, b.server.VMState == compute.VMStopped)
	if err != nil {
		return err
	}
	return b.commit(ctx, b.unchanged())
}

// outcome leaves the server as it was.
func (b *backUpTPM) outcome(workflow.Context, *compute.Error) record.SettleInput {
	return b.unchanged()
}

// keepBackup backs up the state of the machine's vTPM, unless its backup has it already, and
// passes the point of no return. final: the guest is off. Only once the new object was read back
// and is on record, the one before it goes.
func (m *machine) keepBackup(ctx workflow.Context, final bool) (workflow.Context, error) {
	owner := m.server.BackupCredential(m.asked.Credential)
	in := record.TPMBackupInput{OperationInput: m.OperationInput, Final: final}
	if !m.server.HasTPMState() {
		return ctx, compute.Errorf(compute.Conflict, "server %s has no vTPM whose state could be backed up", m.Server)
	}
	in.Of = *m.server.TPM
	was := m.server.Backup()
	if was != nil {
		same, err := m.isBackedUp(ctx, owner, *was)
		if err != nil {
			return ctx, err
		}
		in.Stored, in.Same = was.StoredTPM, same
	}
	if !in.Same {
		stored, err := m.storeBackup(ctx, owner)
		if err != nil {
			return ctx, err
		}
		in.Stored = stored
	}
	ctx, err := passPointOfNoReturn(ctx, m.operation, record.TPMBackup, func(last *record.Close) record.TPMBackupInput {
		in.Close = last
		return in
	})
	if err != nil || in.Same {
		return ctx, err
	}
	return ctx, m.removeBackup(ctx)
}

// isBackedUp reports whether the vTPM has the state that a backup has, which is still there.
func (m *machine) isBackedUp(ctx workflow.Context, owner compute.Credential, was compute.TPMBackup) (same bool, err error) {
	err = m.take(ctx, step{event: "compare_tpm", host: &m.host, do: func(ctx workflow.Context) error {
		now, err := tpm.Digest.On(m.host).BestEffort().TakenWithin(durable.StaleHostSilence).Run(ctx, tpm.DigestInput{Server: m.Server})
		if err != nil || now.SHA256 != was.SHA256 {
			return err
		}
		same, err = isStored(ctx, object.Verify.BestEffort(), owner, was)
		return err
	}})
	return same, err
}

// isFinal reports whether the vTPM of a machine that is off has the state that it was backed up with when that was stopped; also where there is no such backup.
func (m *machine) isFinal(ctx workflow.Context) (bool, error) {
	was := m.server.Backup()
	if was == nil || !was.Final {
		return true, nil
	}
	now, err := tpm.Digest.On(m.host).Run(ctx, tpm.DigestInput{Server: m.Server})
	return now.SHA256 == was.SHA256, err
}

// isStored reports whether the object of a backup is there and what was stored.
func isStored(ctx workflow.Context, verify durable.Activity[object.VerifyInput, durable.None], owner compute.Credential, b compute.TPMBackup) (bool, error) {
	err := verify.Do(ctx, object.VerifyInput{Credential: owner, Name: b.Object, SHA256: b.SHA256})
	if err == nil {
		return true, nil
	}
	if kind := durable.FromTemporal(err).Kind; kind == compute.NotFound || kind == compute.Corrupt {
		return false, nil
	}
	return false, err
}

// storeBackup stores the state as an object, and reads it back.
func (m *machine) storeBackup(ctx workflow.Context, owner compute.Credential) (compute.StoredTPM, error) {
	stored := compute.StoredTPM{Object: compute.TPMBackupObject(m.Server, m.Operation)}
	made := m.thing(compute.ThingObject, compute.PlaceObjects, stored.Object)
	made.Credential = owner
	err := m.take(ctx, step{event: "back_up_tpm", host: &m.host, makes: []compute.Thing{made}, do: func(ctx workflow.Context) error {
		got, err := tpm.BackUp.On(m.host).BestEffort().TakenWithin(durable.StaleHostSilence).Run(ctx, tpm.SaveInput{Credential: owner, Server: m.Server, Object: stored.Object})
		if err != nil {
			return err
		}
		stored.SHA256 = got.SHA256
		return object.Verify.BestEffort().Do(ctx, object.VerifyInput{Credential: owner, Name: stored.Object, SizeBytes: got.SizeBytes, SHA256: got.SHA256})
	}})
	return stored, err
}

// removeBackup removes the backup that the server had when the operation began, after the point of
// no return.
func (o *operation) removeBackup(ctx workflow.Context) error {
	if o.server.TPMBackup == nil {
		return nil
	}
	has, err := o.things(ctx)
	if err != nil {
		return err
	}
	for _, t := range has {
		if t.Kind == compute.ThingObject && t.Name == o.server.TPMBackup.Object {
			return o.removeAfterCommit(ctx, "delete_tpm_backup", []compute.Thing{t})
		}
	}
	return nil
}
