package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// Rescue boots a server from a disk made of an image, with its own disks beside it
// and its TPM as it is (EE-26). When it fails or is cancelled the server is as it
// was, and there is no such disk.
func Rescue(ctx workflow.Context, in durable.OperationInput) error {
	return onMachineWith(ctx, in, compute.Rescue, func(m *machine, in compute.RescueArguments) body {
		return &rescue{in: in, switchover: switchover{operation: m.operation, from: m}}
	})
}

type rescue struct {
	switchover
	in compute.RescueArguments
}

func (r *rescue) run(ctx workflow.Context) error {
	disk, err := r.plan()
	if err != nil {
		return err
	}
	for _, next := range []func(workflow.Context) error{r.checkSecrets, r.keepPorts, r.fetch, r.rescueDisk, r.halt, r.start} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	disk, _ = r.to.server.RescueDisk()
	return r.commit(ctx, record.SettleInput{VMState: compute.VMRescued, Power: r.to.power, Launched: true, Rescue: &disk})
}

func (r *rescue) plan() (compute.Disk, error) {
	was := r.from.server
	if err := was.CheckNotRescued(); err != nil {
		return compute.Disk{}, err
	}
	disk, err := compute.PlanRescue(r.Operation, r.in)
	r.to = &machine{operation: r.operation, server: was.RescuedWith(disk), host: r.from.host}
	return disk, err
}

// checkSecrets reads the keys that the server will need to come up, as it was or as it is to be:
// who may not read them does not even stop it (TPM-14, EE-38).
func (r *rescue) checkSecrets(ctx workflow.Context) error {
	return r.checkReadable(ctx, r.to.server.OpeningSecrets(), r.to.server)
}

func (r *rescue) fetch(ctx workflow.Context) error {
	disk, _ := r.to.server.RescueDisk()
	cached, err := r.cacheImage(disk, *disk.Source, r.to.host, hereOnly)
	if err != nil {
		return err
	}
	return r.take(ctx, cached)
}

// rescueDisk makes the rescue disk while the server still runs.
func (r *rescue) rescueDisk(ctx workflow.Context) error {
	return r.makeDisks(ctx, compute.TaskNone)
}

// Unrescue boots a rescued server from its own disk again. When it fails or is
// cancelled before the rescue disk goes, the server is rescued as it was.
func Unrescue(ctx workflow.Context, in durable.OperationInput) error {
	return onMachine(ctx, in, func(m *machine) body {
		own := &machine{operation: m.operation, server: m.server.Unrescued(), host: m.host}
		return &unrescue{switchover{operation: m.operation, from: m, to: own}}
	})
}

type unrescue struct{ switchover }

func (u *unrescue) run(ctx workflow.Context) (err error) {
	for _, next := range []func(workflow.Context) error{u.checkSecrets, u.keepPorts, u.halt, u.start} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	ctx, err = passPointOfNoReturn(ctx, u.operation, record.Unrescue, func(last *record.Close) record.UnrescueInput {
		return record.UnrescueInput{OperationInput: u.OperationInput, Close: last}
	})
	if err != nil {
		return err
	}
	if err := u.removeOld(ctx); err != nil {
		return err
	}
	return u.commit(ctx, record.SettleInput{VMState: compute.VMActive, Power: u.to.power, Launched: true})
}

// checkSecrets is as of a rescue. The key of the rescue disk is not needed: an image that is gone
// keeps nobody from his server.
func (u *unrescue) checkSecrets(ctx workflow.Context) error {
	return u.checkReadable(ctx, u.to.server.OpeningSecrets(), u.to.server)
}
