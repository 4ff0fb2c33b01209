package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// What the janitor records at once.
var ReapedParts = reapedParts

const ReapedAtOnce = reapedAtOnce

// Move gives the workflow of an operation that no request asks for: it boots a server on
// another host and removes it from the one where it was. It shows what a switchover does
// between two hosts.
func Move(to durable.Host) func(workflow.Context, durable.OperationInput) error {
	return func(ctx workflow.Context, in durable.OperationInput) error {
		return operate(ctx, in, func(o *operation) body {
			m := &move{switchover{operation: o, to: &machine{operation: o, server: o.server, host: to}}}
			m.from = &machine{operation: o, server: o.server, host: *o.asked.Host, power: o.server.PowerState}
			return m
		})
	}
}

type move struct{ switchover }

func (m *move) run(ctx workflow.Context) error {
	for _, next := range []func(workflow.Context) error{m.makeSecrets, m.moveDisks, m.halt, m.start} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	ctx, err := passPointOfNoReturn(ctx, m.operation, record.Rebuild, func(last *record.Close) record.RebuildInput {
		return record.RebuildInput{
			OperationInput: m.OperationInput, Image: m.to.server.Image, Disks: m.to.server.Disks, TPM: m.to.server.TPM, Close: last,
		}
	})
	if err != nil {
		return err
	}
	if err := m.removeOld(ctx); err != nil {
		return err
	}
	return m.commit(ctx, record.SettleInput{VMState: compute.VMActive, Power: m.to.power, Launched: true})
}

func (m *move) moveDisks(ctx workflow.Context) error { return m.makeDisks(ctx, compute.TaskNone) }
