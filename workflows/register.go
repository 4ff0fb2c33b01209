package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/durable"
)

// Register registers every workflow under its name.
func Register(r worker.WorkflowRegistry) {
	for kind, run := range map[compute.OperationKind]any{
		compute.OpCreate: Spawn,
		compute.OpDelete: Delete,
		compute.OpStart:  Start,
		compute.OpStop:   Stop,
		compute.OpReboot: Reboot,

		compute.OpCreateImage:  Snapshot,
		compute.OpCreateBackup: Snapshot,
		compute.OpRebuild:      Rebuild,

		compute.OpRotateKeys: Rotate,

		compute.OpRescue:   Rescue,
		compute.OpUnrescue: Unrescue,
	} {
		r.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: durable.WorkflowType(kind)})
	}
	r.RegisterWorkflowWithOptions(Sweep, workflow.RegisterOptions{Name: SweepName})
	r.RegisterWorkflowWithOptions(Reap, workflow.RegisterOptions{Name: ReapName})
	r.RegisterWorkflowWithOptions(Audit, workflow.RegisterOptions{Name: AuditName})
}
