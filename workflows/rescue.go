package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// Rescue boots a server from a disk made of an image, with its own disks beside it
// and its TPM as it is (EE-26). When it fails or is cancelled the server is as it
// was, and there is no such disk.
func Rescue(ctx workflow.Context, in durable.OperationInput) error {
	return operate(ctx, in, func(o *operation) story { return &rescue{switchover: switchover{operation: o, was: o.server}} })
}

type rescue struct {
	switchover
	power compute.PowerState
	disk  compute.Disk
}

func (r *rescue) run(ctx workflow.Context) error {
	if err := r.plan(); err != nil {
		return err
	}
	for _, next := range []func(workflow.Context) error{r.fetch, r.makeDisk, r.halt, r.start} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	return r.commit(ctx, record.SettleInput{VMState: compute.VMRescued, Power: r.power, Launched: true, Rescue: &r.disk})
}

func (r *rescue) outcome(*compute.Error) record.SettleInput { return r.switchover.outcome() }

func (r *rescue) plan() (err error) {
	if r.host, err = r.operation.host(); err != nil {
		return err
	}
	if err := r.server.CheckNotRescued(); err != nil {
		return err
	}
	r.disk, err = compute.PlanRescue(r.Operation, r.asked.Rescue.Image)
	return err
}

func (r *rescue) fetch(ctx workflow.Context) error {
	cached, err := r.cacheImageUnder(r.disk, *r.disk.Source, r.host, durable.HostBulk)
	if err != nil {
		return err
	}
	return r.take(ctx, cached.step)
}

// makeDisk makes the rescue disk while the server still runs.
func (r *rescue) makeDisk(ctx workflow.Context) error {
	return r.take(ctx, step{
		event: "create_rescue_disk", host: &r.host, makes: []compute.Thing{r.file(r.host, r.disk.Name())},
		do: func(ctx workflow.Context) error {
			var got disk.CreateResult
			in := disk.CreateInput{
				Credential: r.keys().OfDisk(r.disk), Server: r.Server, Project: r.server.ProjectID, Disk: r.disk, Image: r.disk.Source,
			}
			err := workflow.ExecuteActivity(durable.HostMake(ctx, r.host), disk.Create, in).Get(ctx, &got)
			r.disk.EncryptionOptions = got.EncryptionOptions
			return err
		},
		undo: func(ctx workflow.Context) error { return r.deleteFiles(ctx, r.host, r.disk.Name()) },
		lean: true, // it goes after the machine that runs from it
	})
}

func (r *rescue) start(ctx workflow.Context) error {
	return r.take(ctx, r.bootAs(domain.StartInput{Server: r.server.RescuedWith(r.disk)}, r.host, &r.power))
}

// Unrescue boots a rescued server from its own disk again. When it fails or is
// cancelled before the rescue disk goes, the server is rescued as it was.
func Unrescue(ctx workflow.Context, in durable.OperationInput) error {
	return operate(ctx, in, func(o *operation) story {
		return &unrescue{switchover: switchover{operation: o, was: o.server}}
	})
}

type unrescue struct {
	switchover
	power compute.PowerState
}

func (u *unrescue) run(ctx workflow.Context) (err error) {
	if u.host, err = u.operation.host(); err != nil {
		return err
	}
	for _, next := range []func(workflow.Context) error{u.halt, u.start} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	if ctx, err = u.decide(ctx, record.Unrescue, u.OperationInput); err != nil {
		return err
	}
	if err := u.discard(ctx, u.was.RescueThings); err != nil {
		return err
	}
	return u.commit(ctx, record.SettleInput{VMState: compute.VMActive, Power: u.power, Launched: true})
}

func (u *unrescue) outcome(*compute.Error) record.SettleInput { return u.switchover.outcome() }

func (u *unrescue) start(ctx workflow.Context) error {
	return u.take(ctx, u.bootAs(domain.StartInput{Server: u.was.Unrescued()}, u.host, &u.power))
}
