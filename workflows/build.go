package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/compute"
	"strongroom/durable"
)

// build makes what a server lacks of its plan on a host: secrets, disks, a running
// domain.
type build struct {
	*operation
	host  compute.HostID
	power compute.PowerState
	// was is the server that the plan takes the place of, nil for the first one. While
	// there is one the record tells of it: of the new one it is told at the decision.
	was *compute.Server
}

// makeSecrets gives every encrypted disk and the vTPM a secret of its own
// (EE-09, TPM-09) and puts their ids on record (TPM-10).
func (b *build) makeSecrets(ctx workflow.Context) error {
	plan, err := secretPlan(b.server, b.Operation, b.keys(), b.asked.Credential)
	if err != nil || len(plan) == 0 {
		return err
	}
	things := b.secretThings(plan)
	return b.take(ctx, step{
		event: "create_secrets", makes: things,
		do: func(ctx workflow.Context) error { return b.createSecrets(ctx, plan, things) },
		undo: func(ctx workflow.Context) error {
			end := b.removeAll(ctx, things)
			if b.was != nil {
				return end
			}
			if err := recorded(ctx, record.ClearSecrets, b.OperationInput, nil); err != nil {
				return err
			}
			return end
		},
		lean: true, // keys go after the disks and the TPM state that they open
	})
}

func (b *build) createSecrets(ctx workflow.Context, plan []plannedSecret, things []compute.Thing) error {
	made, err := makeSecrets(ctx, plan, things)
	if err != nil {
		return err
	}
	ids := record.SecretsInput{OperationInput: b.OperationInput, Disks: map[string]compute.SecretID{}}
	for i, p := range plan {
		p.give(&b.server, &ids, made[i])
	}
	if b.was != nil {
		return nil
	}
	return recorded(ctx, record.SaveSecrets, ids, nil)
}

// missing are the disks of the plan that are not there yet, by their index.
func (b *build) missing() []int {
	there := map[compute.DiskID]bool{}
	if b.was != nil {
		for _, d := range b.was.Disks {
			there[d.ID] = true
		}
	}
	var out []int
	for i, d := range b.server.Disks {
		if !there[d.ID] {
			out = append(out, i)
		}
	}
	return out
}

// makeDisks makes the local disks, each encrypted with its own secret.
func (b *build) makeDisks(ctx workflow.Context, task compute.TaskState) error {
	if err := b.task(ctx, task); err != nil {
		return err
	}
	disks := b.missing()
	made := step{event: "create_disks", host: &b.host}
	var files []string
	for _, i := range disks {
		name := b.server.Disks[i].Name()
		files = append(files, name)
		made.makes = append(made.makes, b.file(b.host, name))
	}
	made.do = func(ctx workflow.Context) error { return b.createDisks(ctx, disks) }
	made.undo = func(ctx workflow.Context) error { return b.deleteFiles(ctx, b.host, files...) }
	return b.take(ctx, made)
}

func (b *build) createDisks(ctx workflow.Context, disks []int) error {
	host := durable.HostMake(ctx, b.host)
	calls := make([]workflow.Future, len(disks))
	for c, i := range disks {
		d := b.server.Disks[i]
		in := disk.CreateInput{Credential: b.keys().Disks, Server: b.Server, Disk: d}
		if d.Role == compute.RootDisk {
			in.Project, in.Image = b.server.ProjectID, &b.server.Image
		}
		on := host
		if d.OnDevice() && in.Image != nil { // all of the image is copied
			on = durable.HostBulk(ctx, b.host)
		}
		calls[c] = workflow.ExecuteActivity(on, disk.Create, in)
	}
	if err := all(ctx, calls); err != nil {
		return err
	}
	for c, i := range disks {
		var got disk.CreateResult
		if err := calls[c].Get(ctx, &got); err != nil {
			return err
		}
		if err := b.noteOptions(ctx, i, got.EncryptionOptions); err != nil {
			return err
		}
	}
	return nil
}

// noteOptions keeps how a disk was really encrypted (EE-08).
func (b *build) noteOptions(ctx workflow.Context, i int, options map[string]string) error {
	d := &b.server.Disks[i]
	if !d.Encrypted {
		return nil
	}
	d.EncryptionOptions = options
	if b.was != nil {
		return nil
	}
	in := record.OptionsInput{OperationInput: b.OperationInput, Disk: d.ID, Format: d.Format, Options: options}
	return recorded(ctx, record.SaveOptions, in, nil)
}

// start boots the domain. Where it is the server's first one, its undo leaves
// neither domain nor console log nor config drive; TPM state goes when it was made
// here.
func (b *build) start(ctx workflow.Context) error {
	freshTPM := b.server.TPM != nil && (b.was == nil || b.was.TPM == nil)
	boot := b.bootAs(domain.StartInput{Server: b.server, NewTPM: freshTPM}, b.host, &b.power)
	place := b.host.String()
	if b.was == nil {
		boot.makes = append(boot.makes, b.thing(compute.ThingDomain, place, b.server.InstanceName()))
		for _, f := range b.bootFiles() {
			boot.makes = append(boot.makes, b.file(b.host, f))
		}
	}
	if freshTPM {
		boot.makes = append(boot.makes, b.thing(compute.ThingTPMState, place, b.Server.String()))
	}
	halt := boot.undo
	boot.undo = func(ctx workflow.Context) error {
		if b.was == nil {
			return b.undoFirst(ctx)
		}
		if err := halt(ctx); err != nil || !freshTPM {
			return err
		}
		in := tpm.DeleteInput{Server: b.Server}
		return workflow.ExecuteActivity(durable.HostUndo(ctx, b.host), tpm.Delete, in).Get(ctx, nil)
	}
	return b.take(ctx, boot)
}

func (b *build) undoFirst(ctx workflow.Context) error {
	if err := b.destroy(ctx, b.host); err != nil {
		return err
	}
	if err := b.forgetSecrets(ctx, b.host, b.server); err != nil {
		return err
	}
	return b.deleteFiles(ctx, b.host, b.bootFiles()...)
}

// bootFiles are the files that a server has from its first boot on.
func (b *build) bootFiles() []string {
	if b.server.ConfigDrive {
		return []string{disk.ConsoleLog, compute.ConfigDriveFile}
	}
	return []string{disk.ConsoleLog}
}
