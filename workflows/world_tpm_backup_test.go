package workflows_test

import (
	"context"

	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/compute"
)

// registerTPMBackup registers what backs up the state of a vTPM.
func (w *world) registerTPMBackup(r registry) {
	register(w, r, record.TPMBackup, func(_ context.Context, in record.TPMBackupInput) (none, error) {
		w.close(in.OperationInput, in.Close)
		if was := w.row.server.TPMBackup; was != nil && was.Operation == in.Operation { // noted before
			return none{}, nil
		}
		return none{}, w.fenced(in.OperationInput, func() { w.noteBackup(in) })
	})
	registerOnHost(w, r, tpm.Digest, func(ctx context.Context, in tpm.DigestInput) (tpm.DigestResult, error) {
		key := w.tpmKey(hostOf(ctx), in.Server.String())
		if !w.tpms[key] {
			return tpm.DigestResult{}, compute.Errorf(compute.Corrupt, "it has no state")
		}
		return tpm.DigestResult{SHA256: sumOf(w.states[key])}, nil
	})
	registerOnHost(w, r, tpm.BackUp, func(ctx context.Context, in tpm.SaveInput) (tpm.SaveResult, error) {
		key := w.tpmKey(hostOf(ctx), in.Server.String())
		if !w.tpms[key] {
			return tpm.SaveResult{}, compute.Errorf(compute.Corrupt, "it has no state")
		}
		if w.refuses(in.Credential) {
			return tpm.SaveResult{}, compute.Errorf(compute.Forbidden, "you may not")
		}
		w.made(compute.ThingObject, compute.PlaceObjects, in.Object)
		if w.stored[in.Object] == "" {
			w.stored[in.Object] = w.states[key]
		}
		return tpm.SaveResult{SizeBytes: int64(len(w.stored[in.Object])), SHA256: sumOf(w.stored[in.Object])}, nil
	})
}

func (w *world) noteBackup(in record.TPMBackupInput) {
	was := w.row.server.TPMBackup
	if was == nil {
		was = &compute.TPMBackup{}
	}
	is := compute.TPMBackup{StoredTPM: in.Stored, Of: in.Of, Generation: was.Generation, At: w.now(), Final: in.Final, Operation: in.Operation}
	if !in.Same {
		is.Generation++
	}
	w.row.server.TPMBackup = &is
}

// forgetBackup forgets a backup of another vTPM than the server has.
func (w *world) forgetBackup() {
	if w.row.server.Backup() == nil {
		w.row.server.TPMBackup = nil
	}
}
