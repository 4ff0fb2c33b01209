package workflows

import (
	"cmp"
	"slices"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/ledger"
	"strongroom/activities/placement"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/compute"
	"strongroom/durable"
)

// Evacuate has a server run on another host, since its own one is down and fenced: with its disks as they are, where the two hosts have these on
// one storage, else with new disks of its image, under the keys that they had (EE-29), and a vTPM with the state of its
// backup or, where there is none, a new one (TPM-30). Nothing is asked of the host that it leaves: what is there waits on the ledger for it. When it fails or
// is cancelled before the decision, the server is as it was.
func Evacuate(ctx workflow.Context, in durable.OperationInput) error {
	return onMachineWith(ctx, in, compute.Evacuate, func(m *machine, in compute.EvacuateArguments) body {
		return &evacuation{in: in, switchover: switchover{operation: m.operation, from: m, ports: portMove{fenced: true}}}
	})
}

type evacuation struct {
	switchover
	in        compute.EvacuateArguments
	sharedTPM bool   // its new host has the state of its vTPM, on storage that both share
	backing   string // what the header of the root disk names as its backing file, where its new host has its disks
}

func (e *evacuation) run(ctx workflow.Context) error {
	server, err := e.server.EvacuatedAs(e.Operation)
	if err != nil {
		return err
	}
	if err := e.server.CheckEvacuator(server, e.asked.Credential); err != nil {
		return err
	}
	e.to = &machine{operation: e.operation, server: server, power: compute.PowerShutdown}
	for _, next := range []func(workflow.Context) error{
		e.checkKeys, e.place, e.findDisks, e.findTPM, e.checkBackup, e.leave, e.fetch, e.newSecrets, e.rebuildDisks, e.restoreTPM, e.movePorts, e.startHere,
	} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	ctx, err = passPointOfNoReturn(ctx, e.operation, record.Evacuate, func(last *record.Close) record.EvacuateInput {
		return record.EvacuateInput{OperationInput: e.OperationInput, From: e.from.host.ID, To: e.to.server, Close: last, SharedTPM: e.sharedTPM, SharedDisks: e.to.onShared}
	})
	if err != nil {
		return err
	}
	return e.end(ctx)
}

// boots reports whether the server is to run on its new host.
func (e *evacuation) boots() bool { return e.from.server.BootsAfter(e.in) }

// checkKeys sees that whoever asks may read the keys that are needed, before anything is made
// (EE-30).
func (e *evacuation) checkKeys(ctx workflow.Context) error {
	return e.checkReadable(ctx, e.to.server.EvacuationKeys(e.boots()), e.to.server)
}

// place claims a host, of those that have the disks, and the state of the vTPM, if one of them can take the server. If its worker does not
// take work in time, or it cannot plug the server's ports, another one is claimed: of those that have the state, if one of them is silent.
func (e *evacuation) place(ctx workflow.Context) error {
	e.unclaimLast()
	not, err := e.notHere(ctx)
	if err != nil {
		return err
	}
	asked := placement.ClaimInput{Not: not, Only: e.in.Host, OnShared: e.in.Shared != nil && *e.in.Shared}
	if e.from.server.KeepsDisks(e.in) {
		asked.DisksOf = &e.from.host.ID
	}
	if e.from.server.HasTPMState() {
		asked.TPMOf = &e.from.host.ID
	}
	var refusal error
	for {
		if err := e.claim(ctx, asked); err != nil {
			if compute.Is(durable.FromTemporal(err), compute.Conflict) || record.IsSuperseded(err) { // it says what to do
				return err
			}
			return cmp.Or(refusal, err)
		}
		e.unwritten.Migration = &record.Migration{Type: record.EvacuationType, To: e.to.host.ID, Flavor: e.to.server.Flavor.ID}
		var absent []string
		if e.to.onShared = e.claimedDisks; !e.to.onShared {
			absent = filesOf(e.to.server)
		}
		reach := e.reachHost(e.to.host, compute.TaskNone, absent)
		err := e.take(ctx, reach)
		if err == nil {
			err = e.preparePorts(ctx)
		}
		switch silent := durable.IsHostSilent(err); {
		case err == nil, e.in.Host != nil, !silent && !lacksRoom(err):
			return err
		case silent:
			e.giveUpHost(reach, false)
			asked.Silent = append(asked.Silent, e.to.host.ID)
		default:
			refusal = err
		}
		asked.Not = append(asked.Not, e.to.host.ID)
	}
}

// notHere are the hosts that the server does not go to: its own, and those that have something
// of it that waits to be removed, under the names of what would come.
func (e *evacuation) notHere(ctx workflow.Context) ([]compute.HostID, error) {
	has, err := ledger.Things.Run(ctx, compute.ServerOwner(e.Server))
	if err != nil {
		return nil, err
	}
	return e.server.Occupied(has, false), nil
}

// findDisks sees that the new host has the disks, where both hosts say that they share their storage: they stay as they
// are. Until it is decided that the server is on the new host they are the old one's (record.Evacuate).
func (e *evacuation) findDisks(ctx workflow.Context) error {
	if !e.to.onShared {
		return nil
	}
	return e.take(ctx, step{event: "look_for_disks", host: &e.to.host, do: func(ctx workflow.Context) error {
		was := e.from.server
		got, err := disk.Find.On(e.to.host).Run(ctx, disk.FindInput{Server: e.Server, Files: filesOf(was)})
		if err != nil {
			return err
		}
		e.backing, e.to.server, e.to.hasFiles = got.Backing, e.to.server.WithDisksOf(was), !was.Unbooted()
		return nil
	}})
}

// findTPM finds out whether the new host has the state of the vTPM (TPM-39): then it is not lost.
func (e *evacuation) findTPM(ctx workflow.Context) (err error) {
	if !e.from.server.HasTPMState() {
		return nil
	}
	if err := e.putKeptBack(ctx); err != nil {
		return err
	}
	if e.sharedTPM, err = e.seesTPM(ctx, tpm.ShowInput{Server: e.Server, Version: e.from.server.TPM.Version}, e.boots()); e.sharedTPM {
		kept := *e.from.server.TPM
		e.to.server = e.to.server.WithNewTPM(false)
		e.to.server.TPM = &kept // with the certificates that it has
	}
	return err
}

// putKeptBack has the new host put the state of the vTPM back as it was before a move that
// failed, on storage that both hosts share: a host that is down did not. The row of the copy goes with
// the janitor, which finds it done.
func (e *evacuation) putKeptBack(ctx workflow.Context) error {
	has, err := ledger.Things.Run(ctx, compute.ServerOwner(e.Server))
	if err != nil {
		return err
	}
	undecided := func(t compute.Thing) bool {
		return t.Kind == compute.ThingTPMState && t.Reference == compute.KeptUndecided
	}
	kept := slices.DeleteFunc(has, func(t compute.Thing) bool { return !undecided(t) })
	if len(kept) == 0 {
		return nil
	}
	return e.take(ctx, step{event: "put_tpm_back", host: &e.to.host, do: func(ctx workflow.Context) error {
		peers, err := placement.TPMPeers.Run(ctx, e.from.host.ID)
		if err != nil || !slices.Contains(peers, e.to.host.ID) {
			return err
		}
		for _, t := range kept { // of one there is still a copy: no other was made while that waited
			t.Place, t.HostName = e.to.host.ID.String(), e.to.host.Name
			if err := e.startRemoval(ctx, t).ended(ctx); err != nil {
				return err
			}
		}
		return nil
	}})
}

// leave sees that the old host is fenced. From here on it stops the guest, should it come back,
// so that the new machine is never the second one.
func (e *evacuation) leave(ctx workflow.Context) error {
	return e.take(ctx, step{event: "leave_host", do: func(ctx workflow.Context) error {
		return record.LeaveHost.Do(ctx, record.LeaveHostInput{OperationInput: e.OperationInput, From: e.from.host.ID})
	}})
}

func (e *evacuation) fetch(ctx workflow.Context) error {
	root, _ := e.to.server.RootDisk()
	if root.Image == nil { // it has all of its data in itself
		return nil
	}
	cached, err := e.cacheImage(root, e.to.server.Image, e.to.host, hereOnly)
	if err != nil {
		return err
	}
	cached.task = compute.TaskRebuildDevices
	return e.take(ctx, cached)
}

// newSecrets makes the keys that new disks need and the old ones had not. Those that are kept need none.
func (e *evacuation) newSecrets(ctx workflow.Context) error {
	if e.to.onShared {
		return nil
	}
	return e.makeSecrets(ctx)
}

func (e *evacuation) rebuildDisks(ctx workflow.Context) error {
	if e.to.onShared {
		return e.takeOver(ctx)
	}
	return e.makeDisks(ctx, compute.TaskRebuildSpawning)
}

// takeOver has the new host use the disks that there are. Nothing is made: its undo changes back what names the image under the root
// disk, and removes nothing.
func (e *evacuation) takeOver(ctx workflow.Context) error {
	in := disk.TakeOverInput{Server: e.Server, Project: e.server.ProjectID, Disks: e.to.server.Disks}
	if root, _ := e.to.server.RootDisk(); root.Image != nil {
		in.Image = &e.to.server.Image
	}
	s := step{event: "take_over_disks", host: &e.to.host, task: compute.TaskRebuildSpawning, undoLast: true, do: func(ctx workflow.Context) error {
		return e.recaching(ctx, []int{0}, hereOnly, func() error { return disk.TakeOver.On(e.to.host).Do(ctx, in) })
	}}
	if in.Image != nil && e.backing != "" {
		back := in
		back.Backing, back.Disks = e.backing, e.to.server.Disks[:1]
		s.undo = func(ctx workflow.Context) error { return disk.TakeOver.On(e.to.host).Do(ctx, back) }
	}
	return e.take(ctx, s)
}

// startHere boots the new machine, unless the server is to stay off.
func (e *evacuation) startHere(ctx workflow.Context) error {
	if !e.boots() {
		return nil
	}
	if e.sharedTPM { // the guest may change it before it is decided that the server is here
		if err := e.keepTPM(ctx); err != nil {
			return err
		}
	}
	if err := e.take(ctx, e.to.boot(domain.StartInput{})); err != nil {
		return err
	}
	e.to.server = e.to.server.WithUnbooted(false).WithNewTPM(false)
	return nil
}

// checkBackup is that of switchover, unless the new host has the state.
func (e *evacuation) checkBackup(ctx workflow.Context) error {
	if e.sharedTPM {
		return nil
	}
	return e.switchover.checkBackup(ctx)
}

// restoreTPM is that of switchover, unless the new host has the state.
func (e *evacuation) restoreTPM(ctx workflow.Context) error {
	if e.sharedTPM {
		return nil
	}
	return e.switchover.restoreTPM(ctx, e.onHost(compute.ThingTPMState, e.to.host, e.Server.String()))
}

// end tells what the server has lost, and settles the operation.
func (e *evacuation) end(ctx workflow.Context) error {
	lost, err := e.settleTPM(ctx)
	if err != nil {
		return err
	}
	if e.to.server.Backup() == nil {
		if err := e.removeBackup(ctx); err != nil {
			return err
		}
	}
	if !e.boots() {
		end := stopped()
		end.Message = lost
		return e.commit(ctx, end)
	}
	return e.commit(ctx, record.SettleInput{VMState: compute.VMActive, Power: e.to.power, Launched: true, Message: lost})
}

// settleTPM removes the copy that was kept of the vTPM's state, or notes what took the place of that. It returns what the user is told.
func (e *evacuation) settleTPM(ctx workflow.Context) (lost string, err error) {
	switch {
	case !e.sharedTPM:
		return e.tellOfLostTPM(ctx, "was lost with its host")
	case e.boots():
		return "", e.removeKept(ctx)
	}
	return "", nil
}
