package workflows_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"strongroom/activities/disk"
	"strongroom/activities/image"
	"strongroom/activities/object"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/compute"
)

// digestOf stands for the sha256 of an image's data.
func digestOf(id compute.ImageID) string { return sumOf("data of " + id.String()) }

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// registerShelve registers what the record knows of shelved servers.
func (w *world) registerShelve(r registry) {
	register(w, r, record.Shelve, func(_ context.Context, in record.ShelveInput) (none, error) {
		w.close(in.OperationInput, in.Close)
		return none{}, w.fenced(in.OperationInput, func() { w.shelve(in) })
	})
	register(w, r, record.Unshelve, func(_ context.Context, in record.UnshelveInput) (none, error) {
		w.close(in.OperationInput, in.Close)
		return none{}, w.fenced(in.OperationInput, func() { w.unshelve(in) })
	})
}

func (w *world) shelve(in record.ShelveInput) {
	s := &w.row.server
	for i, d := range s.Disks {
		if kept, is := in.Disks[d.ID.String()]; is {
			s.Disks[i].Shelved = &kept
		}
	}
	if s.System == nil {
		s.System = map[string]string{}
	}
	if in.TPM != nil {
		s.TPMBackup = nil
		s.System[compute.SystemTPMObject], s.System[compute.SystemTPMObjectSHA256] = in.TPM.Object, in.TPM.SHA256
	}
	if in.NVRAM != nil {
		s.System[compute.SystemNVRAMObject], s.System[compute.SystemNVRAMObjectSHA256] = in.NVRAM.Object, in.NVRAM.SHA256
	}
	s.VMState, s.PowerState = compute.VMShelved, compute.PowerShutdown
	if in.OffloadAfter == 0 {
		s.VMState = compute.VMShelvedOffloaded
	}
}

func (w *world) unshelve(in record.UnshelveInput) {
	s := &w.row.server
	for i := range s.Disks {
		s.Disks[i].Shelved = nil
		for _, d := range in.Disks {
			if d.ID == s.Disks[i].ID {
				s.Disks[i].File, s.Disks[i].Image, s.Disks[i].BackingSecret = d.File, nil, nil
			}
		}
	}
	s.System = nil
}

// registerShelved registers what keeps the data of shelved servers.
func (w *world) registerShelved(r registry) {
	w.registerStored(r)
	w.registerRestores(r)
}

func (w *world) registerStored(r registry) {
	register(w, r, object.Check, func(_ context.Context, in object.CheckInput) (none, error) {
		return none{}, w.with([]compute.Credential{in.Credential}, func() {})
	})
	register(w, r, object.Verify, func(_ context.Context, in object.VerifyInput) (none, error) {
		switch data, is := w.stored[in.Name]; {
		case !is:
			return none{}, compute.Errorf(compute.NotFound, "no such object")
		case sumOf(data) != in.SHA256:
			return none{}, compute.Errorf(compute.Corrupt, "it is another one")
		}
		return none{}, nil
	})
	register(w, r, object.Remove, func(_ context.Context, in compute.Removal) (none, error) {
		return none{}, w.with(in.Credentials, func() { delete(w.stored, in.Thing.Name) })
	})
	register(w, r, image.CheckShelved, func(_ context.Context, in image.CheckShelvedInput) (none, error) {
		img := w.images[in.Image.String()]
		if img == nil || img.data == "" {
			return none{}, compute.Errorf(compute.NotFound, "no such image")
		}
		return none{}, in.TPM.CheckShelvedImage(img.Image)
	})
}

func (w *world) registerRestores(r registry) {
	w.registerStoredNVRAM(r)
	registerOnHost(w, r, tpm.Save, func(ctx context.Context, in tpm.SaveInput) (tpm.SaveResult, error) {
		key := w.tpmKey(hostOf(ctx), in.Server.String())
		if w.domains[hostOf(ctx)+" "+compute.InstanceName(in.Server)] == compute.PowerRunning || !w.tpms[key] {
			return tpm.SaveResult{}, compute.Errorf(compute.Conflict, "it runs, or has no state")
		}
		w.made(compute.ThingObject, compute.PlaceObjects, in.Object)
		w.stored[in.Object] = w.states[key]
		return tpm.SaveResult{SizeBytes: int64(len(w.states[key])), SHA256: sumOf(w.states[key])}, nil
	})
	registerOnHost(w, r, tpm.Restore, func(ctx context.Context, in tpm.RestoreInput) (none, error) {
		key := w.tpmKey(hostOf(ctx), in.Server.String())
		if has := w.marks[key]; has.op == in.Operation && has.laidDown {
			return none{}, nil
		}
		data, is := w.stored[in.Stored.Object]
		switch {
		case !is:
			return none{}, compute.Errorf(compute.NotFound, "no such object")
		case sumOf(data) != in.Stored.SHA256:
			return none{}, compute.Errorf(compute.Corrupt, "its sha256 is another one")
		}
		w.made(compute.ThingTPMState, hostOf(ctx), in.Server.String())
		w.layState(key, data, []compute.SecretID{*w.row.server.TPM.Secret}, mark{op: in.Operation, laidDown: true, began: in.Began})
		return none{}, nil
	})
	registerOnHost(w, r, disk.Restore, func(ctx context.Context, in disk.RestoreInput) (none, error) {
		img := w.images[in.Disk.Shelved.Image.String()]
		switch {
		case img == nil:
			return none{}, compute.Errorf(compute.NotFound, "no such image")
		case in.Disk.Shelved.SHA256 != digestOf(in.Disk.Shelved.Image):
			return none{}, compute.Errorf(compute.Corrupt, "its sha256 is another one")
		}
		name := in.Server.String() + "/" + in.Disk.Name()
		w.made(compute.ThingDiskFile, hostOf(ctx), name)
		w.files[hostOf(ctx)+" "+name] = true
		if in.Disk.Secret != nil {
			w.locks[hostOf(ctx)+" "+name] = []compute.SecretID{*in.Disk.Secret}
		}
		return none{}, nil
	})
}
