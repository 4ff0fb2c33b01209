package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/domain"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// CrashDump gives a server's guest a non-maskable interrupt. What the guest does with it is its own
// matter, and nothing takes it back: also an operation that fails or is cancelled may have given it.
func CrashDump(ctx workflow.Context, in durable.OperationInput) error {
	return onMachine(ctx, in, func(m *machine) body { return &crashDump{m} })
}

type crashDump struct{ *machine }

func (c *crashDump) run(ctx workflow.Context) error {
	if err := c.take(ctx, c.interrupt()); err != nil {
		return err
	}
	return c.commit(ctx, c.unchanged())
}

// interrupt is the step that interrupts the machine's guest.
func (c *crashDump) interrupt() step {
	return step{event: "inject_nmi", host: &c.host, do: func(ctx workflow.Context) error {
		return domain.InjectNMI.On(c.host).Do(ctx, domain.InjectNMIInput{Server: c.Server, Operation: c.Operation})
	}}
}

func (c *crashDump) outcome(workflow.Context, *compute.Error) record.SettleInput {
	return c.unchanged()
}
