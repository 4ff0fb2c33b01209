package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/domain"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// Pause lets a server's guest stand still. When it fails or is cancelled, the guest
// goes on.
func Pause(ctx workflow.Context, in durable.OperationInput) error {
	return onMachine(ctx, in, func(m *machine) body { return &pause{m} })
}

type pause struct{ *machine }

func (p *pause) run(ctx workflow.Context) error {
	if err := p.take(ctx, p.switchPower("pause_domain", domain.Pause, domain.Unpause)); err != nil {
		return err
	}
	return p.commit(ctx, record.SettleInput{VMState: compute.VMPaused, Power: compute.PowerPaused})
}

func (p *pause) outcome(workflow.Context, *compute.Error) record.SettleInput { return p.unchanged() }

// Unpause lets a paused guest go on. When it fails or is cancelled, the guest stands
// still.
func Unpause(ctx workflow.Context, in durable.OperationInput) error {
	return onMachine(ctx, in, func(m *machine) body { return &unpause{m} })
}

type unpause struct{ *machine }

func (u *unpause) run(ctx workflow.Context) error {
	if err := u.take(ctx, u.switchPower("unpause_domain", domain.Unpause, domain.Pause)); err != nil {
		return err
	}
	return u.commit(ctx, record.SettleInput{VMState: u.server.RunningState(), Power: compute.PowerRunning})
}

func (u *unpause) outcome(workflow.Context, *compute.Error) record.SettleInput { return u.unchanged() }

// switchPower is a step that pauses the machine's domain or resumes it, and its undo,
// which does the other. A guest that is off by then has nothing to be taken back.
func (m *machine) switchPower(event string, do, undo durable.HostActivity[domain.PauseInput, durable.None]) step {
	in := domain.PauseInput{Server: m.Server}
	return step{
		event: event, host: &m.host,
		do:   func(ctx workflow.Context) error { return do.On(m.host).Do(ctx, in) },
		undo: unlessOff(func(ctx workflow.Context) error { return undo.On(m.host).Do(ctx, in) }),
	}
}

// unlessOff is an undo that takes nothing back from a guest that is off by then.
func unlessOff(undo func(workflow.Context) error) func(workflow.Context) error {
	return func(ctx workflow.Context) error {
		err := undo(ctx)
		if err != nil && durable.FromTemporal(err).Kind == compute.Conflict {
			return nil
		}
		return err
	}
}
