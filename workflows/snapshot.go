package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/image"
	"strongroom/activities/key"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// CreateImage makes an image of a server's root disk, encrypted with the key that was
// asked for (EE-16 … EE-19). A running server goes on meanwhile. When it fails or
// is cancelled before the image is whole, neither image nor key nor copy is left.
func CreateImage(ctx workflow.Context, in durable.OperationInput) error {
	return makeImage(ctx, in, compute.CreateImage)
}

type snapshot struct {
	*machine
	in     compute.SnapshotArguments
	record *imageRecord
	root   compute.Disk
	target compute.ExportTarget
	copied compute.Export
	owned  []compute.Thing // what is the owner's once it is whole
	lost   bool            // the key manager does not have the disk's key any more
}

func (s *snapshot) run(ctx workflow.Context) (err error) {
	s.target = compute.ExportTarget{Format: compute.ImageQcow2, Key: s.in.Key, Credential: s.asked.Credential}
	for _, next := range []func(workflow.Context) error{s.makeRecord, s.checkSecrets, s.makeKey, s.export, s.describe, s.upload} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	// Everybody sees the image now, and somebody may have deleted the server because of
	// it: a cancel comes too late.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	ctx, err = passPointOfNoReturn(ctx, s.operation, record.HandOver, func(last *record.Close) record.HandOverInput {
		return record.HandOverInput{OperationInput: s.OperationInput, Things: s.owned, Close: last}
	})
	if err != nil {
		return err
	}
	if err := s.removeAfterCommit(ctx, "delete_export", []compute.Thing{s.exported()}); err != nil {
		return err
	}
	if s.in.Backup != nil {
		if err := s.rotateBackups(ctx); err != nil {
			return err
		}
	}
	return s.commit(ctx, s.unchanged())
}

// outcome leaves the server as it was: an image of it changes nothing.
func (s *snapshot) outcome(workflow.Context, *compute.Error) record.SettleInput { return s.unchanged() }

// task says what is being done; a backup is one thing throughout.
func (s *snapshot) task(task compute.TaskState) compute.TaskState {
	if s.in.Backup != nil {
		return compute.TaskBackup
	}
	return task
}

// makeRecord creates the image's record in the image store, for whoever asked to see
// what becomes of it, and waits to be answered. It comes first, and whatever ends the
// operation early takes it away.
func (s *snapshot) makeRecord(ctx workflow.Context) error {
	img := s.image()
	s.owned = append(s.owned, img)
	return s.take(ctx, step{
		event: "create_image", makes: []compute.Thing{img}, undoLast: true, // it goes after the copy that is being sent to it
		do: func(ctx workflow.Context) error {
			err := image.Create.Do(ctx, image.CreateInput{Credential: s.asked.Credential, Image: compute.SnapshotImage(s.server, s.in)})
			if err == nil {
				s.record.tell(durable.ImageRecordResult{})
			}
			return err
		},
	})
}

func (s *snapshot) image() compute.Thing {
	return s.thing(compute.ThingImage, compute.PlaceImageStore, s.in.Image.String())
}

// checkSecrets reads the keys of the disk that is copied. The copy of a running server's disk needs
// none of them, and would give what is on it to who may not read them (EE-38). Where somebody deleted
// one, the key manager does not say any more who may: the server's owner may, so that what is on
// the disk is not lost when the guest stops (EE-40).
func (s *snapshot) checkSecrets(ctx workflow.Context) error {
	root, _ := s.server.RootDisk()
	of := s.server
	of.Disks, of.TPM = []compute.Disk{root}, nil
	needs := of.OpeningSecrets()
	if len(needs) == 0 {
		return nil
	}
	return s.take(ctx, step{event: "check_secrets", do: func(ctx workflow.Context) error {
		err := s.tryReading(ctx, needs, of)
		if isNotFound(err) && s.opened() && s.in.Key != compute.KeySame && s.asked.Credential.UserID == s.server.UserID {
			s.lost = true
			return nil
		}
		return err
	}})
}

// opened reports whether QEMU has the disk open.
func (s *snapshot) opened() bool {
	return s.server.VMState == compute.VMActive || s.server.VMState == compute.VMPaused
}

// makeKey has the secret of the image: the owner of the image is its owner.
func (s *snapshot) makeKey(ctx workflow.Context) error {
	var ok bool
	if s.root, ok = s.server.RootDisk(); !ok {
		return compute.Errorf(compute.Conflict, "server %s has no local root disk", s.Server)
	}
	switch {
	case s.in.Key == compute.KeyExisting:
		s.target.Secret = s.in.Secret
		return s.take(ctx, step{event: "read_image_secret", task: s.task(compute.TaskSnapshot), do: s.useSecret})
	case s.in.Key == compute.KeyNone, s.in.Key == compute.KeySame && !s.root.Encrypted:
		return nil
	}
	plan := compute.ImageSecret(s.in.Image, s.Operation)
	made := []compute.Thing{s.thing(compute.ThingKeySecret, compute.PlaceKeyManager, plan.Name)}
	return s.take(ctx, step{
		event: "create_image_secret", task: s.task(compute.TaskSnapshot), makes: made, undoLast: true,
		do: func(ctx workflow.Context) error { return s.createKey(ctx, plan, &made[0]) },
	})
}

// useSecret makes sure that the secret that was asked for can be read and stays there: one of a
// server's disk goes with that (EE-46).
func (s *snapshot) useSecret(ctx workflow.Context) error {
	in := key.CheckInput{Credential: s.asked.Credential, Secret: *s.in.Secret}
	if err := key.Check.Do(ctx, in); err != nil {
		return err
	}
	called, err := key.Name.Run(ctx, in)
	if err != nil {
		return err
	}
	return record.UseSecret.Do(ctx, record.UseSecretInput{
		OperationInput: s.OperationInput, Image: s.in.Image, Project: s.asked.Credential.ProjectID, Secret: in.Secret, Name: called.Name,
	})
}

func (s *snapshot) createKey(ctx workflow.Context, plan compute.SecretPlan, t *compute.Thing) error {
	var call durable.Future[key.CreateResult]
	if s.in.Key == compute.KeySame {
		call = key.Copy.Start(ctx, key.CopyInput{
			Credential: s.asked.Credential, ID: plan.ID, Name: plan.Name, From: *s.root.Secret, FromCredential: s.keys().Disks,
		})
	} else {
		call = key.Create.Start(ctx, key.CreateInput{
			Credential: s.asked.Credential, ID: plan.ID, Name: plan.Name, Bytes: plan.Bytes, Like: s.root.Secret, Private: s.lost,
		})
	}
	got, err := call.Result(ctx)
	if err != nil {
		return err
	}
	t.Reference, s.target.Secret = got.Secret.String(), &got.Secret
	s.owned = append(s.owned, *t)
	return nil
}

// export copies the root disk on its host: of a running server as it is at one
// moment.
func (s *snapshot) export(ctx workflow.Context) error {
	copied := step{
		event: "export_disk", host: &s.host, task: s.task(compute.TaskSnapshot), makes: []compute.Thing{s.exported()}, do: s.exportOffline,
	}
	if s.opened() {
		copied.do, copied.undo = s.exportLive, s.abortExport
		if s.target.Secret != nil {
			// Libvirt is lent the image's secret for the copy.
			copied.borrows = []compute.Thing{s.onHost(compute.ThingHypervisorSecret, s.host, s.target.Secret.String())}
		}
	}
	return s.take(ctx, copied)
}

// abortExport ends the job that makes a copy.
func (s *snapshot) abortExport(ctx workflow.Context) error {
	return domain.AbortExport.On(s.host).Do(ctx, domain.AbortExportInput{Server: s.Server})
}

func (s *snapshot) exported() compute.Thing {
	return s.file(s.host, compute.ExportFolder(s.Operation))
}

func (s *snapshot) exportOffline(ctx workflow.Context) (err error) {
	s.copied, err = disk.Export.On(s.host).Run(ctx, s.exportOf(s.root, s.target))
	return err
}

func (s *snapshot) exportLive(ctx workflow.Context) (err error) {
	s.copied, err = domain.Export.On(s.host).Run(ctx, domain.ExportInput{
		Server: s.Server, Operation: s.Operation, Disk: s.root, Target: s.target,
	})
	return err
}

// describe says on the image how it is encrypted.
func (s *snapshot) describe(ctx workflow.Context) error {
	if s.target.Secret == nil {
		return nil
	}
	return s.take(ctx, step{event: "describe_image", task: s.task(compute.TaskUploading), do: func(ctx workflow.Context) error {
		return image.Describe.Do(ctx, image.DescribeInput{
			Credential: s.asked.Credential, Image: s.in.Image,
			Properties: s.copied.EncryptionProperties(*s.target.Secret, s.in.Key != compute.KeyExisting),
		})
	}})
}

// upload sends the copy.
func (s *snapshot) upload(ctx workflow.Context) error {
	return s.take(ctx, step{event: "upload_image", host: &s.host, task: s.task(compute.TaskUploading), do: func(ctx workflow.Context) error {
		return image.Upload.On(s.host).Do(ctx, image.UploadInput{Credential: s.asked.Credential, Image: s.in.Image, File: s.copied.File})
	}})
}
