package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/durable"
)

// Register registers every workflow under its name.
func Register(r worker.WorkflowRegistry) {
	for kind, run := range map[compute.OperationKind]func(workflow.Context, durable.OperationInput) error{
		compute.OpCreate: Spawn,
		compute.OpDelete: Delete,
		compute.OpStart:  Start,
		compute.OpStop:   Stop,
		compute.OpReboot: Reboot,

		compute.OpPause:   Pause,
		compute.OpUnpause: Unpause,

		compute.OpSuspend: Suspend,
		compute.OpResume:  Resume,

		compute.OpCrashDump: CrashDump,

		compute.OpCreateImage:  CreateImage,
		compute.OpCreateBackup: CreateBackup,
		compute.OpRebuild:      Rebuild,

		compute.OpRotateKeys: Rotate,

		compute.OpShareAttach: ShareAttach,
		compute.OpShareDetach: ShareDetach,

		compute.OpInterfaceAttach: InterfaceAttach,
		compute.OpInterfaceDetach: InterfaceDetach,

		compute.OpRescue:   Rescue,
		compute.OpUnrescue: Unrescue,

		compute.OpShelve:        Shelve,
		compute.OpShelveOffload: ShelveOffload,
		compute.OpUnshelve:      Unshelve,

		compute.OpResize:        Resize,
		compute.OpMigrate:       Migrate,
		compute.OpLiveMigrate:   LiveMigrate,
		compute.OpConfirmResize: ConfirmResize,
		compute.OpRevertResize:  RevertResize,
		compute.OpEvacuate:      Evacuate,

		compute.OpBackUpTPM: BackUpTPM,

		compute.OpImportLegacy: ImportLegacy,

		compute.OpDrain: Drain,

		compute.OpSecureVolumeOpen:      SecureVolumeOpen,
		compute.OpSecureVolumeClose:     SecureVolumeClose,
		compute.OpSecureVolumeRotateKey: SecureVolumeRotateKey,
	} {
		r.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: durable.WorkflowType(kind)})
	}
	// It never ends, so it goes over to each new version: what it does between two
	// continue-as-new must replay in the next version.
	r.RegisterWorkflowWithOptions(Janitor, workflow.RegisterOptions{Name: JanitorName, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade})
	r.RegisterWorkflowWithOptions(Audit, workflow.RegisterOptions{Name: AuditName})
}
