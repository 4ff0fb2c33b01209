package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// ImportLegacy takes over the volumes of a server that Nova ran (EE-48). They and the key are on
// the ledger before, handed over: nothing removes what is Nova's still. By the commit they are
// the server's, and go with it.
func ImportLegacy(ctx workflow.Context, in durable.OperationInput) error {
	return onMachineWith(ctx, in, compute.ImportLegacy, func(m *machine, in compute.ImportLegacyArguments) body {
		return &legacyImport{machine: m, in: in}
	})
}

type legacyImport struct {
	*machine
	in compute.ImportLegacyArguments
}

func (i *legacyImport) run(ctx workflow.Context) error {
	if err := i.take(ctx, i.adopt()); err != nil {
		return err
	}
	op := compute.Operation{ID: i.Operation, ServerID: i.Server}
	i.unwritten.Close.Present = op.ImportedThings(i.server, i.in.Key)
	end := stopped()
	end.Launched = true // it ran, under Nova
	return i.commit(ctx, end)
}

// adopt is the step that makes the volumes strongroom's. It makes nothing, so nothing of it
// is removed where it fails: what is adopted by then is adopted once more by the next import.
func (i *legacyImport) adopt() step {
	disks := slices.Clone(i.server.Disks)
	for n := range disks {
		disks[n].Encrypted, disks[n].Format = true, compute.FormatPlain
	}
	return step{event: "adopt_volumes", host: &i.host, do: func(ctx workflow.Context) error {
		return disk.Adopt.On(i.host).Do(ctx, disk.AdoptInput{Server: i.Server, Disks: disks, Force: i.in.Force})
	}}
}

// outcome leaves a server that was imported before as it was. Another one is no server yet.
func (i *legacyImport) outcome(ctx workflow.Context, err *compute.Error) record.SettleInput {
	if i.server.VMState == compute.VMStopped {
		return i.unchanged()
	}
	return record.SettleInput{VMState: compute.VMError, Fault: faultOf(ctx, err)}
}
