package workflows

import (
	"cmp"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/image"
	"strongroom/activities/ledger"
	"strongroom/activities/placement"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/compute"
	"strongroom/durable"
)

// Unshelve runs a shelved server again. One that is still on its host is started there
// (TPM-24). An offloaded one gets a host, its disks of their images and the state of its vTPM and the variables
// of its UEFI of their objects, each compared with what its record says (TPM-25). When it fails or is
// cancelled the server is shelved as it was, with all that keeps its data, so that it can be
// tried again (TPM-26). Images and objects go last.
func Unshelve(ctx workflow.Context, in durable.OperationInput) error {
	return operate(ctx, in, func(o *operation) body {
		arguments, err := compute.Unshelve.Read(o.asked.Arguments)
		if err != nil {
			return refused{o, err}
		}
		if err := o.server.CheckUnshelve(); err != nil {
			return refused{o, err}
		}
		u := unshelve{switchover: switchover{operation: o}, in: arguments}
		if o.server.IsOffloaded() {
			return &bringBack{u}
		}
		host, err := o.host()
		if err != nil {
			return refused{o, err}
		}
		u.to = &machine{operation: o, server: o.server, host: host}
		return &u
	})
}

// unshelve is that of a server that is still on its host.
type unshelve struct {
	switchover
	in compute.UnshelveArguments
}

func (u *unshelve) run(ctx workflow.Context) error {
	if u.server.VMState == compute.VMError {
		has, err := ledger.Things.Run(ctx, compute.ServerOwner(u.Server))
		if err != nil {
			return err
		}
		if !u.server.IsWhole(has) {
			return (&bringBack{*u}).run(ctx)
		}
	}
	if err := u.to.bindPorts(ctx); err != nil {
		return err
	}
	if err := u.take(ctx, u.to.boot(domain.StartInput{})); err != nil {
		return err
	}
	return u.end(ctx, record.UnshelveInput{OperationInput: u.OperationInput})
}

// outcome leaves the server shelved.
func (u *unshelve) outcome(workflow.Context, *compute.Error) record.SettleInput { return u.unchanged() }

// end decides the unshelve, and removes what kept the server's data, and the keys that only
// an image under its root disk had.
func (u *unshelve) end(ctx workflow.Context, decide record.UnshelveInput) error {
	ctx, err := passPointOfNoReturn(ctx, u.operation, record.Unshelve, func(last *record.Close) record.UnshelveInput {
		decide.Close = last
		return decide
	})
	if err != nil {
		return err
	}
	has, err := u.things(ctx)
	if err != nil {
		return err
	}
	spare := slices.DeleteFunc(has, func(t compute.Thing) bool { return !u.isSpare(t) })
	if err := u.removeAfterCommit(ctx, "delete_shelved", spare); err != nil {
		return err
	}
	return u.commit(ctx, record.SettleInput{VMState: compute.VMActive, Power: u.to.power, Launched: true})
}

// isSpare reports whether the server that runs again has no use for a thing in the cloud.
func (u *unshelve) isSpare(t compute.Thing) bool {
	switch t.Kind {
	case compute.ThingImage:
		return slices.ContainsFunc(u.server.Disks, func(d compute.Disk) bool { return d.Shelved != nil && d.Shelved.Image.String() == t.Name })
	case compute.ThingObject:
		return u.server.IsStoredIn(t.Name)
	case compute.ThingKeySecret:
		return u.server.Uses(compute.HostID{}, t) && !u.to.server.Uses(compute.HostID{}, t)
	}
	return false
}

// bringBack is that of a server that is on no host.
type bringBack struct{ unshelve }

func (b *bringBack) run(ctx workflow.Context) error {
	server, err := b.server.Unshelved(b.Operation, b.in)
	if err != nil {
		return err
	}
	b.to = &machine{operation: b.operation, server: server}
	for _, next := range []func(workflow.Context) error{b.runsNowhere, b.checkKeys, b.checkImages, b.clearHost, b.comeUp} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	decide := record.UnshelveInput{OperationInput: b.OperationInput, Disks: b.to.server.Disks, Unpin: b.in.Unpin}
	if b.in.Zone != nil {
		decide.Zone = *b.in.Zone
	}
	return b.end(ctx, decide)
}

// clearHost removes what an operation left on hosts that was terminated when it had brought
// back, or given up, a part of the server.
func (b *bringBack) clearHost(ctx workflow.Context) error {
	if b.server.Host == nil {
		return nil
	}
	if err := b.checkKept(ctx); err != nil {
		return err
	}
	has, err := ledger.Things.Run(ctx, compute.ServerOwner(b.Server))
	if err != nil {
		return err
	}
	return b.removeAfterCommit(ctx, "clear_host", slices.DeleteFunc(has, func(t compute.Thing) bool { return !t.OnHost() }))
}

// checkKeys sees that whoever asks may read the keys that the server needs to start (TPM-36).
func (b *bringBack) checkKeys(ctx workflow.Context) error {
	return b.checkReadable(ctx, b.to.server.OpeningSecrets(), b.to.server)
}

// owner is the credential for what keeps the server's data.
func (b *bringBack) owner() compute.Credential { return b.server.OwnersCredential(b.asked.Credential) }

// checkImages sees that the images are there and ask for no other vTPM (TPM-37).
func (b *bringBack) checkImages(ctx workflow.Context) error {
	return b.take(ctx, step{event: "check_images", do: func(ctx workflow.Context) error {
		calls := make([]durable.Future[durable.None], len(b.server.Disks))
		for i, d := range b.server.Disks {
			calls[i] = image.CheckShelved.Start(ctx, image.CheckShelvedInput{Credential: b.owner(), Image: d.Shelved.Image, TPM: b.server.TPM})
		}
		_, err := awaitAll(ctx, calls)
		return err
	}})
}

// comeUp brings the server up on a host. Where that refuses, or takes no work before the guest
// was started there, all of it is undone and another host is claimed.
func (b *bringBack) comeUp(ctx workflow.Context) error {
	plan := b.to.server
	var tried []compute.HostID
	var refusal error
	for {
		b.to = &machine{operation: b.operation, server: plan}
		b.unclaimLast()
		if err := b.claim(ctx, placement.ClaimInput{Not: tried, Only: b.in.Host, Alone: b.server.Host != nil}); err != nil {
			return cmp.Or(refusal, err)
		}
		err := b.comeUpHere(ctx)
		if err == nil || !b.goesElsewhere(ctx, err) {
			return err
		}
		refusal, tried = err, append(tried, b.to.host.ID)
		b.undo(ctx)
		if slices.ContainsFunc(b.waiting, func(t compute.Thing) bool { return t.Kind == compute.ThingRunningDomain }) {
			return err // it may run there
		}
		b.trail.elsewhere(ctx)
	}
}

func (b *bringBack) comeUpHere(ctx workflow.Context) error {
	comes := disk.CheckRoomInput{Disks: len(b.server.Disks)}
	for _, d := range b.server.Disks {
		comes.Bytes += d.Shelved.SizeBytes
	}
	if err := b.take(ctx, b.checkRoom(b.to.host, compute.TaskSpawning, comes)); err != nil {
		return err
	}
	for _, next := range []func(workflow.Context) error{b.plugPorts, b.restoreDisks, b.restoreNVRAM, b.restoreTPM, b.startHere} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// plugPorts binds the server's ports to the host, before anything is brought there.
func (b *bringBack) plugPorts(ctx workflow.Context) error {
	if !b.server.UsesPorts() {
		return nil
	}
	return b.take(ctx, step{event: "bind_ports", undo: b.releasePorts, do: func(ctx workflow.Context) error {
		return b.to.bindPortsTo(ctx, b.zone, nil)
	}})
}

// goesElsewhere reports whether another host may do what failed here.
func (b *bringBack) goesElsewhere(ctx workflow.Context, failure error) bool {
	return ctx.Err() == nil && b.in.Host == nil && (durable.IsHostSilent(failure) || lacksRoom(failure))
}

// restoreDisks makes the disks of their images.
func (b *bringBack) restoreDisks(ctx workflow.Context) error {
	s := step{event: "restore_disks", host: &b.to.host, undoLast: true} // the domain runs from them
	for _, d := range b.to.server.Disks {
		s.makes = append(s.makes, b.file(b.to.host, d.Name()))
	}
	s.do = func(ctx workflow.Context) error {
		return b.unlessSilent(ctx, func(limit time.Duration) error { return b.restoreEach(ctx, limit) })
	}
	return b.take(ctx, s)
}

// unlessSilent tries what the host is to take. One that was asked for is waited for, however
// long it is silent.
func (b *bringBack) unlessSilent(ctx workflow.Context, try func(limit time.Duration) error) error {
	if b.in.Host != nil {
		return try(0)
	}
	return whileBusy(ctx, b.to.host, try)
}

func (b *bringBack) restoreEach(ctx workflow.Context, limit time.Duration) error {
	calls := make([]durable.Future[durable.None], len(b.to.server.Disks))
	for i, d := range b.to.server.Disks {
		calls[i] = disk.Restore.On(b.to.host).TakenWithin(limit).Start(ctx, disk.RestoreInput{Credential: b.owner(), Server: b.Server, Disk: d})
	}
	_, err := awaitAll(ctx, calls)
	return err
}

// restoreNVRAM brings the variables of UEFI to the host.
func (b *bringBack) restoreNVRAM(ctx workflow.Context) error {
	file := b.to.server.NVRAM()
	if file == "" {
		return nil
	}
	stored := b.server.StoredNVRAM()
	if stored == nil {
		return compute.Errorf(compute.Corrupt, noNVRAM, b.Server)
	}
	firmware, err := b.to.server.Firmware()
	if err != nil {
		return err
	}
	return b.take(ctx, step{
		event: "restore_nvram", host: &b.to.host, undoLast: true, makes: []compute.Thing{b.file(b.to.host, file)},
		do: func(ctx workflow.Context) error {
			in := disk.RestoreNVRAMInput{
				Credential: b.owner(), Server: b.Server, File: file, Stored: *stored, Firmware: firmware, Machine: b.to.server.MachineType(),
			}
			return b.unlessSilent(ctx, func(limit time.Duration) error { return disk.RestoreNVRAM.On(b.to.host).TakenWithin(limit).Do(ctx, in) })
		},
	})
}

// restoreTPM lays down the state of the vTPM on the host.
func (b *bringBack) restoreTPM(ctx workflow.Context) error {
	if b.server.TPM == nil {
		return nil
	}
	stored := b.server.StoredTPM()
	if stored == nil {
		return compute.Errorf(compute.Corrupt, "server %s: the state of its TPM is kept nowhere", b.Server)
	}
	return b.take(ctx, step{
		event: "restore_tpm", host: &b.to.host, undoLast: true, makes: []compute.Thing{b.onHost(compute.ThingTPMState, b.to.host, b.Server.String())},
		do: func(ctx workflow.Context) error {
			in := tpm.RestoreInput{Credential: b.owner(), Server: b.Server, Operation: b.Operation, Began: b.asked.Began, Stored: *stored}
			return b.unlessSilent(ctx, func(limit time.Duration) error { return tpm.Restore.On(b.to.host).TakenWithin(limit).Do(ctx, in) })
		},
	})
}

// startHere boots the domain, the server's first one on its host. Its vTPM is not new.
func (b *bringBack) startHere(ctx workflow.Context) error {
	boot := b.to.boot(domain.StartInput{})
	boot.makes = append(boot.makes, b.firstBoot(b.to)...)
	return b.take(ctx, boot)
}
