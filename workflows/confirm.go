package workflows

import (
	"cmp"
	"slices"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/domain"
	"strongroom/activities/ledger"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// ConfirmResize gives up what a server was before it was resized or migrated: what its host has
// of that, and the keys that nothing else needs (TPM-17, TPM-18). Nothing of it is undone.
func ConfirmResize(ctx workflow.Context, in durable.OperationInput) error {
	return onMachine(ctx, in, func(m *machine) body {
		return &confirmResize{moved{switchover{operation: m.operation, to: m}}}
	})
}

// moved is what is decided on a server that was resized or migrated.
type moved struct{ switchover }

type confirmResize struct{ moved }

func (c *confirmResize) run(ctx workflow.Context) error {
	old, err := c.before(compute.ConfirmResize.Facts)
	if err != nil {
		return err
	}
	c.from = old
	if err := c.hasAll(ctx); err != nil {
		return err
	}
	ctx, err = passPointOfNoReturn(ctx, c.operation, record.ConfirmResize, c.decide)
	if err != nil {
		return err
	}
	if err := c.removeRest(ctx); err != nil {
		return err
	}
	vm, power := compute.Found(compute.VMActive, c.server.PowerState)
	return c.commit(ctx, record.SettleInput{VMState: vm, Power: power})
}

// hasAll sees that the files that go are under no guest, and that the copy that goes of the vTPM's state is not what that is to be.
func (c *confirmResize) hasAll(ctx workflow.Context) error {
	has, err := ledger.Things.Run(ctx, compute.ServerOwner(c.Server))
	if err != nil {
		return err
	}
	return cmp.Or(compute.RunsNowhere(has), compute.HasTPMBack(has))
}

func (c *confirmResize) outcome(workflow.Context, *compute.Error) record.SettleInput {
	return c.unchanged()
}

func (m *moved) decide(last *record.Close) record.DecideMoveInput {
	return record.DecideMoveInput{OperationInput: m.OperationInput, Close: last}
}

// before is the machine that the server was.
func (m *moved) before(of compute.Facts) (*machine, error) {
	if err := m.server.CheckMoved(of); err != nil {
		return nil, err
	}
	f := m.server.Former
	return &machine{operation: m.operation, server: m.server.Before(), host: durable.Host{ID: f.Host, Name: f.HostName}}, nil
}

// removeRest removes what the machine that goes had and the other one has not, and the copies
// that were kept of the vTPM's state.
func (m *moved) removeRest(ctx workflow.Context) error {
	has, err := m.things(ctx)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(has, func(t compute.Thing) bool {
		kept := t.Kind == compute.ThingTPMState && t.Name != m.Server.String()
		return !kept && (!m.from.server.Uses(m.from.host.ID, t) || m.to.server.Uses(m.to.host.ID, t))
	})
	return m.removeAfterCommit(ctx, "remove_old", rest)
}

// RevertResize brings back what a server was before it was resized or migrated: its disks, its
// vTPM and its flavor, on the host that it was on (TPM-17 … TPM-19). When it fails or is
// cancelled, the server is resized as it was.
func RevertResize(ctx workflow.Context, in durable.OperationInput) error {
	return onMachine(ctx, in, func(m *machine) body {
		return &revertResize{moved{switchover{operation: m.operation, from: m}}}
	})
}

type revertResize struct{ moved }

func (r *revertResize) run(ctx workflow.Context) (err error) {
	if r.to, err = r.before(compute.RevertResize.Facts); err != nil {
		return err
	}
	for _, next := range []func(workflow.Context) error{r.reachFormer, r.checkKeys, r.preparePorts, r.halt, r.putTPMBack, r.movePorts, r.startFormer} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	ctx, err = passPointOfNoReturn(ctx, r.operation, record.RevertResize, r.decide)
	if err != nil {
		return err
	}
	if err := r.removeRest(ctx); err != nil {
		return err
	}
	if !r.boots() {
		return r.commit(ctx, stopped())
	}
	return r.commit(ctx, record.SettleInput{VMState: compute.VMActive, Power: r.to.power, Launched: true})
}

// boots reports whether the server ran before it was moved.
func (r *revertResize) boots() bool { return r.to.server.VMState != compute.VMStopped }

// reachFormer sees that the host to which the server goes back answers, before its guest is stopped, and before what it is now goes: what
// it was is there alone.
func (r *revertResize) reachFormer(ctx workflow.Context) error {
	if r.from.host.ID == r.to.host.ID {
		return nil
	}
	err := r.take(ctx, r.reachHost(r.to.host, compute.TaskNone, nil))
	if durable.IsHostSilent(err) {
		return compute.Errorf(compute.Unavailable, "host %s, where the server was, does not answer", r.to.host.Name)
	}
	return err
}

// checkKeys reads the keys that the server needs to come up, as it was or as it is.
func (r *revertResize) checkKeys(ctx workflow.Context) error {
	return r.checkReadable(ctx, r.from.server.RevertKeys(), r.to.server, r.from.server)
}

// putTPMBack puts the state of the vTPM back that was kept, where both machines have one place for
// it. On another host it is as it was left.
func (r *revertResize) putTPMBack(ctx workflow.Context) error {
	if onePlace := r.from.host.ID == r.to.host.ID || r.server.Former.SharedTPM; !onePlace || !keepsTPM(r.to.server, r.from.server, r.boots()) {
		return nil
	}
	return r.exchangeTPM(ctx, compute.KeptTPM(r.Server, r.server.Former.Operation))
}

// startFormer boots the machine that the server was.
func (r *revertResize) startFormer(ctx workflow.Context) error {
	if !r.boots() {
		return nil
	}
	return r.take(ctx, r.to.boot(domain.StartInput{}))
}
