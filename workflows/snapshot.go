package workflows

import (
	"errors"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/image"
	"strongroom/activities/key"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// Snapshot makes an image of a server's root disk, encrypted with the key that was
// asked for (EE-16 … EE-19). A running server goes on meanwhile. When it fails or
// is cancelled before the image is whole, neither image nor key nor copy is left.
func Snapshot(ctx workflow.Context, in durable.OperationInput) error {
	return operate(ctx, in, func(o *operation) story { return &snapshot{operation: o, in: *o.asked.Snapshot} })
}

type snapshot struct {
	*operation
	in     compute.SnapshotArguments
	host   compute.HostID
	root   compute.Disk
	target compute.ExportTarget
	copied compute.Export
	given  []compute.Thing // what is the owner's once it is whole
}

func (s *snapshot) run(ctx workflow.Context) (err error) {
	s.target = compute.ExportTarget{Format: compute.ImageQcow2, Key: s.in.Key, Credential: s.asked.Credential}
	for _, next := range []func(workflow.Context) error{s.makeImage, s.look, s.makeKey, s.export, s.upload} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	if workflow.GetVersion(ctx, "a whole image stays", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return s.endAsBefore(ctx)
	}
	// Everybody sees the image now, and somebody may have deleted the server because of
	// it: a cancel comes too late.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if ctx, err = s.give(ctx); err != nil {
		return err
	}
	if err := s.tidy(ctx); err != nil {
		return err
	}
	return s.end(ctx)
}

// give makes the image, and its key, the owner's.
func (s *snapshot) give(ctx workflow.Context) (workflow.Context, error) {
	return s.decide(ctx, record.Give, record.GiveInput{OperationInput: s.OperationInput, Things: s.given})
}

func (s *snapshot) end(ctx workflow.Context) error {
	if s.in.Backup != nil {
		if err := s.rotate(ctx); err != nil {
			return err
		}
	}
	return s.commit(ctx, s.outcome(nil))
}

// endAsBefore is how operations end that began when an image was still undone once it
// was whole.
func (s *snapshot) endAsBefore(ctx workflow.Context) error {
	err := s.take(ctx, step{event: "delete_export", host: &s.host, do: s.deleteExport, releases: []compute.Thing{s.exported()}})
	if err != nil {
		return err
	}
	if s.in.Backup == nil {
		end := s.outcome(nil)
		end.Given = s.given
		return s.commit(ctx, end)
	}
	if ctx, err = s.give(ctx); err != nil {
		return err
	}
	return s.end(ctx)
}

// outcome leaves the server as it was: an image of it changes nothing.
func (s *snapshot) outcome(*compute.Error) record.SettleInput { return s.unchanged() }

// progress says what is being done; a backup is one thing throughout.
func (s *snapshot) progress(ctx workflow.Context, task compute.TaskState) error {
	if s.in.Backup != nil {
		task = compute.TaskBackup
	}
	return s.task(ctx, task)
}

// makeImage has the image's record, which the api may have made already: so it
// comes first, and whatever ends the operation early takes it away.
func (s *snapshot) makeImage(ctx workflow.Context) error {
	things := []compute.Thing{s.image()}
	s.given = append(s.given, things...)
	return s.take(ctx, step{
		event: "create_image", makes: things,
		do: func(ctx workflow.Context) error {
			in := image.CreateInput{Credential: s.asked.Credential, Image: compute.SnapshotImage(s.server, s.in)}
			return workflow.ExecuteActivity(durable.Cloud(ctx), image.Create, in).Get(ctx, nil)
		},
		undo: func(ctx workflow.Context) error { return s.removeAll(ctx, things) },
		lean: true, // it goes after the copy that is being sent to it
	})
}

func (s *snapshot) image() compute.Thing {
	return s.thing(compute.ThingImage, compute.PlaceImageStore, s.in.Image.String())
}

// look finds what is to be copied.
func (s *snapshot) look(workflow.Context) (err error) {
	if s.host, err = s.operation.host(); err != nil {
		return err
	}
	var ok bool
	if s.root, ok = s.server.RootDisk(); !ok {
		return compute.Errorf(compute.Conflict, "server %s has no local root disk", s.Server)
	}
	return nil
}

// makeKey has the secret of the image: the owner of the image is its owner.
func (s *snapshot) makeKey(ctx workflow.Context) error {
	if err := s.progress(ctx, compute.TaskSnapshot); err != nil {
		return err
	}
	switch {
	case s.in.Key == compute.KeyExisting:
		s.target.Secret = s.in.Secret
		return s.take(ctx, step{event: "read_image_secret", do: func(ctx workflow.Context) error {
			look := key.LookInput{Credential: s.asked.Credential, Secret: *s.in.Secret}
			return workflow.ExecuteActivity(durable.Cloud(ctx), key.Look, look).Get(ctx, nil)
		}})
	case s.in.Key == compute.KeyNone, s.in.Key == compute.KeySame && !s.root.Encrypted:
		return nil
	}
	plan := compute.ImageSecret(s.in.Image, s.Operation)
	things := []compute.Thing{s.thing(compute.ThingKeySecret, compute.PlaceKeyManager, plan.Name)}
	s.given = append(s.given, things...)
	return s.take(ctx, step{
		event: "create_image_secret", makes: things,
		do: func(ctx workflow.Context) error { return s.createKey(ctx, plan, &things[0]) },
		undo: func(ctx workflow.Context) error {
			var refused *refusal
			if err := s.removeAll(ctx, []compute.Thing{s.image()}); err != nil && !errors.As(err, &refused) {
				return err // the key goes after what it opens
			}
			return s.removeAll(ctx, things)
		},
		lean: true,
	})
}

func (s *snapshot) createKey(ctx workflow.Context, plan compute.SecretPlan, t *compute.Thing) error {
	var got key.CreateResult
	var in any = key.CreateInput{Credential: s.asked.Credential, ID: plan.ID, Name: plan.Name, Bytes: plan.Bytes}
	how := key.Create
	if s.in.Key == compute.KeySame {
		how, in = key.Copy, key.CopyInput{
			Credential: s.asked.Credential, ID: plan.ID, Name: plan.Name, From: *s.root.Secret, FromCredential: s.keys().Disks,
		}
	}
	if err := workflow.ExecuteActivity(durable.Cloud(ctx), how, in).Get(ctx, &got); err != nil {
		return err
	}
	t.Reference, s.target.Secret = got.Secret.String(), &got.Secret
	return nil
}

// export copies the root disk on its host: of a running server as it is at one
// moment.
func (s *snapshot) export(ctx workflow.Context) error {
	copied := step{event: "export_disk", host: &s.host, do: s.exportOffline, undo: s.deleteExport}
	copied.makes = []compute.Thing{s.exported()}
	if s.server.VMState == compute.VMActive || s.server.VMState == compute.VMPaused {
		copied.do, copied.undo = s.exportLive, s.abortExport
		if s.target.Secret != nil {
			// Libvirt is lent the image's secret for the copy.
			copied.releases = []compute.Thing{s.thing(compute.ThingHypervisorSecret, s.host.String(), s.target.Secret.String())}
			copied.makes = append(copied.makes, copied.releases...)
		}
	}
	return s.take(ctx, copied)
}

// abortExport leaves neither a copy, nor a job that makes one, nor a secret for it.
func (s *snapshot) abortExport(ctx workflow.Context) error {
	in := domain.AbortExportInput{Server: s.Server}
	if s.target.Secret != nil {
		in.Secrets = []compute.SecretID{*s.target.Secret}
	}
	if err := workflow.ExecuteActivity(durable.HostUndo(ctx, s.host), domain.AbortExport, in).Get(ctx, nil); err != nil {
		return err
	}
	return s.deleteExport(ctx)
}

func (s *snapshot) exported() compute.Thing {
	return s.file(s.host, compute.ExportFolder(s.Operation))
}

func (s *snapshot) exportOffline(ctx workflow.Context) error {
	in := disk.ExportInput{
		Credential: s.keys().Disks, Server: s.Server, Operation: s.Operation,
		Project: s.server.ProjectID, Disk: s.root, Image: &s.server.Image, Target: s.target,
	}
	return workflow.ExecuteActivity(durable.HostBulk(ctx, s.host), disk.Export, in).Get(ctx, &s.copied)
}

func (s *snapshot) exportLive(ctx workflow.Context) error {
	in := domain.ExportInput{Server: s.Server, Operation: s.Operation, Disk: s.root, Target: s.target}
	return workflow.ExecuteActivity(durable.HostBulk(ctx, s.host), domain.Export, in).Get(ctx, &s.copied)
}

func (s *snapshot) deleteExport(ctx workflow.Context) error {
	in := disk.DeleteExportInput{Server: s.Server, Operation: s.Operation}
	return workflow.ExecuteActivity(durable.HostUndo(ctx, s.host), disk.DeleteExport, in).Get(ctx, nil)
}

// upload says how the image is encrypted, and sends the copy.
func (s *snapshot) upload(ctx workflow.Context) error {
	if err := s.progress(ctx, compute.TaskUploading); err != nil {
		return err
	}
	if s.target.Secret != nil {
		in := image.DescribeInput{
			Credential: s.asked.Credential, Image: s.in.Image,
			Properties: s.copied.EncryptionProperties(*s.target.Secret, s.in.Key != compute.KeyExisting),
		}
		if err := workflow.ExecuteActivity(durable.Cloud(ctx), image.Describe, in).Get(ctx, nil); err != nil {
			return err
		}
	}
	return s.take(ctx, step{event: "upload_image", host: &s.host, do: func(ctx workflow.Context) error {
		in := image.UploadInput{Credential: s.asked.Credential, Image: s.in.Image, File: s.copied.File}
		return workflow.ExecuteActivity(durable.HostBulk(ctx, s.host), image.Upload, in).Get(ctx, nil)
	}})
}

// tidy removes the copy.
func (s *snapshot) tidy(ctx workflow.Context) error {
	return s.onward(ctx, step{event: "delete_export", host: &s.host}, func(ctx workflow.Context, end *record.CloseInput) error {
		if err := s.deleteExport(ctx); err != nil {
			return err
		}
		end.Released = []compute.Thing{s.exported()}
		return nil
	})
}
