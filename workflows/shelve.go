package workflows

import (
	"cmp"
	"slices"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/image"
	"strongroom/activities/ledger"
	"strongroom/activities/object"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/compute"
	"strongroom/durable"
)

// Shelve stops a server and keeps its disks as images, each with the disk's own key (EE-25),
// and the state of its vTPM (TPM-21 … TPM-23) and the variables of its UEFI as objects. All of it is its owner's, whoever
// asks (TPM-27). When it fails or is cancelled before the server is shelved, the server is as
// it was and nothing of it is kept. Then the server leaves its host, at once or later.
func Shelve(ctx workflow.Context, in durable.OperationInput) error {
	return onMachineWith(ctx, in, compute.Shelve, func(m *machine, in compute.ShelveArguments) body {
		return &shelve{in: in, switchover: switchover{operation: m.operation, from: m}}
	})
}

type shelve struct {
	switchover // from the machine to none
	keeper
	in compute.ShelveArguments
}

func (s *shelve) run(ctx workflow.Context) error {
	was := s.from.server
	if err := was.CheckShelve(); err != nil {
		return err
	}
	s.keeper = keeper{machine: s.from, owner: was.OwnersCredential(s.asked.Credential)}
	for _, next := range []func(workflow.Context) error{
		s.isHere, s.checkTPM, s.checkKeys, s.checkObjects, s.checkDisks, s.makeImages, s.halt, s.exportDisks, s.describeImages, s.uploadImages, s.saveTPM, s.saveNVRAM,
	} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	ctx, err := passPointOfNoReturn(ctx, s.operation, record.Shelve, func(last *record.Close) record.ShelveInput {
		return record.ShelveInput{OperationInput: s.OperationInput, Disks: s.disks(), TPM: s.state, NVRAM: s.nvram, OffloadAfter: s.in.OffloadAfter, Close: last}
	})
	if err != nil {
		return err
	}
	if err := s.removeBackup(ctx); err != nil {
		return err
	}
	if s.in.OffloadAfter == 0 {
		return s.offload(ctx)
	}
	if err := s.removeAfterCommit(ctx, "delete_export", []compute.Thing{s.exported()}); err != nil {
		return err
	}
	return s.commit(ctx, record.SettleInput{VMState: compute.VMShelved, Power: compute.PowerShutdown})
}

// isHere sees that no other host may still run the guest, on data that are given up, and that the state of its vTPM is what it is
// to be, before anything of it is kept.
func (s *shelve) isHere(ctx workflow.Context) error {
	has, err := ledger.Things.Run(ctx, compute.ServerOwner(s.Server))
	if err != nil {
		return err
	}
	here := s.from.host.ID.String() // where the guest is stopped
	elsewhere := slices.DeleteFunc(slices.Clone(has), func(t compute.Thing) bool { return t.Place == here })
	return cmp.Or(compute.RunsNowhere(elsewhere), compute.HasTPMBack(has))
}

// checkTPM sees that the state of the vTPM is the server's, before the guest is stopped, which may have the only good one in its memory: the shelve keeps that
// state, and drops the backup. Conflict: it is lost, or another one.
func (s *shelve) checkTPM(ctx workflow.Context) error {
	if !s.from.server.HasTPMState() {
		return nil
	}
	return s.from.lookForTPM(ctx, func(lost, another bool) error {
		switch {
		case lost:
			return compute.Errorf(compute.Conflict, errNoTPM, s.Server)
		case another:
			return compute.Errorf(compute.Conflict, errOtherTPM, s.Server)
		}
		return nil
	})
}

// checkKeys sees that the keys can be read with which the disks are copied, before the guest
// is stopped.
func (s *shelve) checkKeys(ctx workflow.Context) error {
	return s.checkReadable(ctx, s.from.server.ShelveKeys(), s.from.server)
}

// keeper keeps what a machine that is off has: each disk as an image, the state of the vTPM
// and the variables of UEFI as an object each.
type keeper struct {
	*machine
	owner  compute.Credential // whose project has all of it
	copies []keptDisk
	state  *compute.StoredTPM   // nil: it has no vTPM
	nvram  *compute.StoredNVRAM // nil: it begins with a BIOS
}

// keptDisk is a disk with the image that keeps it.
type keptDisk struct {
	compute.Disk
	image  compute.Image
	export compute.Export
	kept   compute.ShelvedDisk
}

// owned names a thing that is made with the owner's credential.
func (k *keeper) owned(kind compute.ThingKind, place, name string) compute.Thing {
	t := k.thing(kind, place, name)
	t.Credential = k.owner
	return t
}

// checkObjects sees that objects can be stored, before the guest is stopped.
func (k *keeper) checkObjects(ctx workflow.Context) error {
	if s := k.machine.server; s.TPM == nil && s.NVRAM() == "" {
		return nil
	}
	return k.take(ctx, step{event: "check_object_store", do: func(ctx workflow.Context) error {
		return object.Check.Do(ctx, object.CheckInput{Credential: k.owner})
	}})
}

// checkDisks sees that the disks, and the variables of UEFI, can be copied on their host, and that it has room for all
// of the copies, before the guest is stopped.
func (k *keeper) checkDisks(ctx workflow.Context) error {
	return k.take(ctx, step{event: "check_disks", host: &k.machine.host, do: func(ctx workflow.Context) error {
		in := disk.CheckExportInput{Server: k.Server, NVRAM: k.machine.server.NVRAM()}
		for _, d := range k.machine.server.Disks {
			in.Copies = append(in.Copies, k.copyOf(d))
		}
		return disk.CheckExport.On(k.machine.host).Do(ctx, in)
	}})
}

// copyOf is the copy of a disk that its image has: with the disk's own key, to make it of again.
func (k *keeper) copyOf(d compute.Disk) disk.ExportInput {
	return k.exportOf(d, compute.ExportTarget{
		Format: compute.ImageQcow2, Key: compute.KeySame, Secret: d.Secret, Credential: k.keys().Disks, Restorable: true,
	})
}

// makeImages creates the records of the images.
func (k *keeper) makeImages(ctx workflow.Context) error {
	s := step{event: "create_images", undoLast: true} // they go after the copies that are being sent to them
	for _, d := range k.machine.server.Disks {
		c := keptDisk{Disk: d, image: k.machine.server.ShelveImage(d, k.Operation)}
		k.copies = append(k.copies, c)
		s.makes = append(s.makes, k.owned(compute.ThingImage, compute.PlaceImageStore, c.image.ID.String()))
	}
	s.do = func(ctx workflow.Context) error {
		_, err := each(ctx, k.copies, func(c *keptDisk) durable.Future[image.CreateResult] {
			return image.Create.Start(ctx, image.CreateInput{Credential: k.owner, Image: c.image})
		})
		return err
	}
	return k.take(ctx, s)
}

// exported are the copies of the disks on the host.
func (k *keeper) exported() compute.Thing {
	return k.file(k.machine.host, compute.ExportFolder(k.Operation))
}

// exportDisks copies the disks on their host: their clusters go as they are, with the header
// that the disk's own key opens.
func (k *keeper) exportDisks(ctx workflow.Context) error {
	return k.take(ctx, step{
		event: "export_disks", host: &k.machine.host, task: compute.TaskShelvingPending, makes: []compute.Thing{k.exported()},
		do: func(ctx workflow.Context) error {
			made, err := each(ctx, k.copies, func(c *keptDisk) durable.Future[compute.Export] {
				return disk.Export.On(k.machine.host).Start(ctx, k.copyOf(c.Disk))
			})
			for i := range made {
				k.copies[i].export = made[i]
			}
			return err
		},
	})
}

// describeImages says on the images how they are encrypted: with the keys of the disks, which
// do not go with them (EE-25).
func (k *keeper) describeImages(ctx workflow.Context) error {
	encrypted := slices.DeleteFunc(slices.Clone(k.copies), func(c keptDisk) bool { return c.Secret == nil })
	if len(encrypted) == 0 {
		return nil
	}
	return k.take(ctx, step{event: "describe_images", task: compute.TaskShelvingUploading, do: func(ctx workflow.Context) error {
		_, err := each(ctx, encrypted, func(c *keptDisk) durable.Future[durable.None] {
			return image.Describe.Start(ctx, image.DescribeInput{
				Credential: k.owner, Image: c.image.ID, Properties: c.export.EncryptionProperties(*c.Secret, false),
			})
		})
		return err
	}})
}

// uploadImages sends the copies.
func (k *keeper) uploadImages(ctx workflow.Context) error {
	return k.take(ctx, step{
		event: "upload_images", host: &k.machine.host, task: compute.TaskShelvingUploading,
		do: func(ctx workflow.Context) error {
			got, err := each(ctx, k.copies, func(c *keptDisk) durable.Future[image.UploadResult] {
				return image.Upload.On(k.machine.host).Start(ctx, image.UploadInput{Credential: k.owner, Image: c.image.ID, File: c.export.File})
			})
			if err != nil {
				return err
			}
			for i, up := range got {
				kept := compute.ShelvedDisk{Image: k.copies[i].image.ID, SizeBytes: up.Bytes, SHA256: up.SHA256, SHA512: up.SHA512}
				if _, _, ok := kept.Record().Digest(); !ok {
					return compute.Errorf(compute.Conflict, "the image store keeps neither the sha256 nor the sha512 of image %s: what comes back could not be compared", kept.Image)
				}
				k.copies[i].kept = kept
			}
			return nil
		},
	})
}

// saveTPM stores the state of the vTPM, and reads it back (TPM-22).
func (k *keeper) saveTPM(ctx workflow.Context) error {
	if k.machine.server.TPM == nil {
		return nil
	}
	name := compute.TPMObject(k.Server, k.Operation)
	return k.take(ctx, step{
		event: "save_tpm", host: &k.machine.host, makes: []compute.Thing{k.owned(compute.ThingObject, compute.PlaceObjects, name)},
		do: func(ctx workflow.Context) error {
			got, err := tpm.Save.On(k.machine.host).Run(ctx, tpm.SaveInput{Credential: k.owner, Server: k.Server, Object: name})
			if err != nil {
				return err
			}
			k.state = &compute.StoredTPM{Object: name, SHA256: got.SHA256}
			return object.Verify.Do(ctx, object.VerifyInput{Credential: k.owner, Name: name, SizeBytes: got.SizeBytes, SHA256: got.SHA256})
		},
	})
}

// saveNVRAM stores the variables of UEFI, and reads them back.
func (k *keeper) saveNVRAM(ctx workflow.Context) error {
	file := k.machine.server.NVRAM()
	if file == "" {
		return nil
	}
	name := compute.NVRAMObject(k.Server, k.Operation)
	return k.take(ctx, step{
		event: "save_nvram", host: &k.machine.host, makes: []compute.Thing{k.owned(compute.ThingObject, compute.PlaceObjects, name)},
		do: func(ctx workflow.Context) error {
			got, err := disk.SaveNVRAM.On(k.machine.host).Run(ctx, disk.SaveNVRAMInput{Credential: k.owner, Server: k.Server, File: file, Object: name})
			if err != nil {
				return err
			}
			k.nvram = &compute.StoredNVRAM{Object: name, SHA256: got.SHA256}
			return object.Verify.Do(ctx, object.VerifyInput{Credential: k.owner, Name: name, SizeBytes: got.SizeBytes, SHA256: got.SHA256})
		},
	})
}

// disks says what the images have, by disk.
func (k *keeper) disks() map[string]compute.ShelvedDisk {
	out := map[string]compute.ShelvedDisk{}
	for _, c := range k.copies {
		out[c.ID.String()] = c.kept
	}
	return out
}

// each starts a call for every disk and waits for all of them.
func each[Out any](ctx workflow.Context, disks []keptDisk, start func(*keptDisk) durable.Future[Out]) ([]Out, error) {
	calls := make([]durable.Future[Out], len(disks))
	for i := range disks {
		calls[i] = start(&disks[i])
	}
	return awaitAll(ctx, calls)
}

// ShelveOffload gives up what a shelved server has on its host. Nothing of it is undone.
func ShelveOffload(ctx workflow.Context, in durable.OperationInput) error {
	return onMachine(ctx, in, func(m *machine) body { return &shelveOffload{m} })
}

type shelveOffload struct{ *machine }

func (s *shelveOffload) run(ctx workflow.Context) error {
	if err := s.runsNowhere(ctx); err != nil {
		return err
	}
	if err := s.checkKept(ctx); err != nil && !s.mayNotLook(err) {
		return err
	}
	ctx, err := passPointOfNoReturn(ctx, s.operation, record.Shelve, func(last *record.Close) record.ShelveInput {
		return record.ShelveInput{OperationInput: s.OperationInput, Close: last}
	})
	if err != nil {
		return err
	}
	return s.offload(ctx)
}

// runsNowhere fails while a host that did not answer may still run the guest of a shelved
// server: it would run twice, or on data that are given up.
func (o *operation) runsNowhere(ctx workflow.Context) error {
	has, err := ledger.Things.Run(ctx, compute.ServerOwner(o.Server))
	if err != nil {
		return err
	}
	return compute.RunsNowhere(has)
}

// checkKept sees that what keeps the server's data is still there, before the host's copy of
// them goes: images are their owner's, who may have deleted them.
func (o *operation) checkKept(ctx workflow.Context) error {
	owner := o.server.OwnersCredential(o.asked.Credential)
	if owner.IsMember() && o.server.Delegates() {
		owner = o.server.Delegated()
	}
	return o.take(ctx, step{event: "check_images", do: func(ctx workflow.Context) error {
		calls := make([]durable.Future[durable.None], len(o.server.Disks))
		for i, d := range o.server.Disks {
			if d.Shelved == nil {
				return compute.Errorf(compute.Corrupt, "disk %s of server %s is kept in no image", d.Name(), o.Server)
			}
			calls[i] = image.CheckShelved.Start(ctx, image.CheckShelvedInput{Credential: owner, Image: d.Shelved.Image, TPM: o.server.TPM})
		}
		if _, err := awaitAll(ctx, calls); err != nil {
			return err
		}
		return o.checkStored(ctx, owner)
	}})
}

// checkStored sees that the objects of a shelved server are what was stored.
func (o *operation) checkStored(ctx workflow.Context, owner compute.Credential) error {
	if o.server.TPM != nil {
		stored := o.server.StoredTPM()
		if stored == nil {
			return compute.Errorf(compute.Corrupt, "the state of the TPM of server %s is kept nowhere", o.Server)
		}
		if err := object.Verify.Do(ctx, object.VerifyInput{Credential: owner, Name: stored.Object, SHA256: stored.SHA256}); err != nil {
			return err
		}
	}
	if o.server.NVRAM() == "" {
		return nil
	}
	stored := o.server.StoredNVRAM()
	if stored == nil {
		return compute.Errorf(compute.Corrupt, noNVRAM, o.Server)
	}
	return object.Verify.Do(ctx, object.VerifyInput{Credential: owner, Name: stored.Object, SHA256: stored.SHA256})
}

const noNVRAM = "the UEFI variables of server %s are kept nowhere"

// mayNotLook reports whether the offload begins by itself and strongroom has no role in the
// project of the server's owner, so that it cannot look. The shelve has read back what it
// stored, and the operator's api.shelved_offload_time holds: the server leaves its host.
func (s *shelveOffload) mayNotLook(err error) bool {
	return s.asked.Credential.IsMember() && !s.server.Delegates() && compute.Is(durable.FromTemporal(err), compute.Forbidden)
}

func (s *shelveOffload) outcome(workflow.Context, *compute.Error) record.SettleInput {
	return s.unchanged()
}

// offload removes all that the server has on hosts, and settles it as offloaded: its claim
// is given back, its keys and its ports, which no host has, stay. What cannot be removed now waits on the ledger.
func (o *operation) offload(ctx workflow.Context) error {
	has, err := o.things(ctx)
	if err != nil {
		return err
	}
	local := slices.DeleteFunc(has, func(t compute.Thing) bool { return !t.OnHost() })
	if err := o.removeAfterCommit(ctx, "offload", local); err != nil {
		return err
	}
	if err := o.portsAfterCommit(ctx, "unbind_ports", o.releasePorts); err != nil {
		return err
	}
	return o.commit(ctx, record.SettleInput{VMState: compute.VMShelvedOffloaded, Power: compute.PowerShutdown})
}
