// Package domain runs servers as libvirt domains on a compute host and keeps
// libvirt's own secrets private, in memory, and short-lived.
package domain

import (
	"time"

	"strongroom/compute"
	"strongroom/durable"
)

// The activities on a host's queues.
var (
	Start = durable.HostActivity[StartInput, PowerResult]{Name: "domain.Start",
		Attempt: time.Hour, // a base image of which no check is noted is read first (M5)
		Summary: func(in StartInput) string { return "start domain " + in.Server.InstanceName() }}
	Stop = durable.HostActivity[StopInput, PowerResult]{Name: "domain.Stop",
		Summary: func(in StopInput) string { return "stop domain " + compute.InstanceName(in.Server) }}
	Pause = durable.HostActivity[PauseInput, durable.None]{Name: "domain.Pause",
		Summary: func(in PauseInput) string { return "pause domain " + compute.InstanceName(in.Server) }}
	Unpause = durable.HostActivity[PauseInput, durable.None]{Name: "domain.Unpause",
		Summary: func(in PauseInput) string { return "resume domain " + compute.InstanceName(in.Server) }}
	Suspend = durable.HostActivity[SuspendInput, durable.None]{Name: "domain.Suspend",
		Bulk:    true, // it takes as long as the guest's memory takes to be written
		Summary: func(in SuspendInput) string { return "suspend domain " + compute.InstanceName(in.Server) }}
	InjectNMI = durable.HostActivity[InjectNMIInput, durable.None]{Name: "domain.InjectNMI",
		Summary: func(in InjectNMIInput) string { return "interrupt domain " + compute.InstanceName(in.Server) }}
	AttachShare = durable.HostActivity[ShareInput, durable.None]{Name: "domain.AttachShare",
		Summary: func(in ShareInput) string {
			return "attach share " + in.Share.String() + " to running domain " + compute.InstanceName(in.Server)
		}}
	DetachShare = durable.HostActivity[ShareInput, durable.None]{Name: "domain.DetachShare",
		Summary: func(in ShareInput) string {
			return "detach share " + in.Share.String() + " from running domain " + compute.InstanceName(in.Server)
		}}
	Plug = durable.HostActivity[InterfaceInput, durable.None]{Name: "domain.Plug",
		Summary: func(in InterfaceInput) string {
			return "plug an interface on network " + in.Network.UUID + " into domain " + compute.InstanceName(in.Server)
		}}
	Unplug = durable.HostActivity[InterfaceInput, durable.None]{Name: "domain.Unplug",
		Attempt: time.Hour, // as long as its guest may take (Config.UnplugTimeout)
		Summary: func(in InterfaceInput) string {
			return "unplug an interface on network " + in.Network.UUID + " from domain " + compute.InstanceName(in.Server)
		}}
	Export = durable.HostActivity[ExportInput, compute.Export]{Name: "domain.Export", Bulk: true,
		Summary: func(in ExportInput) string {
			return "export disk " + in.Disk.Label() + " of running domain " + compute.InstanceName(in.Server)
		}}
	AbortExport = durable.HostActivity[AbortExportInput, durable.None]{Name: "domain.AbortExport",
		Summary: func(in AbortExportInput) string {
			return "abort exports of domain " + compute.InstanceName(in.Server)
		}}
	Expect = durable.HostActivity[ExpectInput, ExpectResult]{Name: "domain.Expect",
		Attempt: time.Hour, // as Start
		Summary: func(in ExpectInput) string { return "expect domain " + in.Server.InstanceName() }}
	Keeps = durable.HostActivity[KeepsInput, durable.None]{Name: "domain.Keeps",
		Summary: func(in KeepsInput) string {
			return "see whether the host keeps the keys of domain " + compute.InstanceName(in.Server)
		}}
	Migrate = durable.HostActivity[MigrateInput, MigrateResult]{Name: "domain.Migrate", Bulk: true,
		Attempt: 7 * 24 * time.Hour, // it ends where nothing is sent any more (migrationStall)
		Summary: func(in MigrateInput) string {
			return "migrate domain " + compute.InstanceName(in.Server) + " to " + in.To.Name
		}}
	Arrived = durable.HostActivity[ArrivedInput, ArrivedResult]{Name: "domain.Arrived",
		Summary: func(in ArrivedInput) string { return "see whether domain " + in.Server.InstanceName() + " has come" }}
	Departed = durable.HostActivity[DepartedInput, DepartedResult]{Name: "domain.Departed",
		Summary: func(in DepartedInput) string {
			return "see whether domain " + compute.InstanceName(in.Server) + " has left"
		}}
	Remove = durable.HostActivity[compute.Removal, durable.None]{Name: "domain.Remove", Summary: compute.Removal.String}
	Seen   = durable.HostActivity[compute.SeenInput, compute.SeenResult]{Name: "domain.Seen",
		Summary: func(compute.SeenInput) string { return "list domains and libvirt secrets" }}
)

// Register registers the activities.
func (a *Activities) Register(r durable.Registry) {
	Start.Register(r, a.Start)
	Stop.Register(r, a.Stop)
	Pause.Register(r, durable.NoResult(a.Pause))
	Unpause.Register(r, durable.NoResult(a.Unpause))
	Suspend.Register(r, durable.NoResult(a.Suspend))
	InjectNMI.Register(r, durable.NoResult(a.InjectNMI))
	AttachShare.Register(r, durable.NoResult(a.AttachShare))
	DetachShare.Register(r, durable.NoResult(a.DetachShare))
	Plug.Register(r, durable.NoResult(a.Plug))
	Unplug.Register(r, durable.NoResult(a.Unplug))
	Export.Register(r, a.Export)
	AbortExport.Register(r, durable.NoResult(a.AbortExport))
	Expect.Register(r, a.Expect)
	Keeps.Register(r, durable.NoResult(a.Keeps))
	Migrate.Register(r, a.Migrate)
	Arrived.Register(r, a.Arrived)
	Departed.Register(r, a.Departed)
	Remove.Register(r, durable.NoResult(a.Remove))
	Seen.Register(r, a.Seen)
}

// StartInput asks that a server's domain exists and runs. The passphrases of
// its disks and TPM are read with the keyring, lent to libvirt as private
// ephemeral secrets, and taken back before the activity ends, whichever way.
type StartInput struct {
	Keys      compute.Keyring     `json:"keys"`
	Server    compute.Server      `json:"server"`
	Operation compute.OperationID `json:"operation,omitempty"` // that starts it
	Began     time.Time           `json:"began,omitzero"`      // when that did (compute.Thing.WaitedBefore)
	// NewTPM says that the vTPM has no state that a guest has used: state that does not open is what
	// a setup left that was killed, and is made anew.
	NewTPM bool `json:"new_tpm,omitempty"`
	// Suspended says that the guest goes on where domain.Suspend halted it. Any other start is a boot, and discards
	// the memory that a guest was suspended with.
	Suspended bool `json:"suspended,omitempty"`
}

// StopInput asks that a server's domain is shut off: by its power button, and
// by force once GraceSeconds have passed. 0 means force at once.
type StopInput struct {
	Server       compute.ServerID `json:"server"`
	GraceSeconds int              `json:"grace_seconds"`
}

// PowerResult is the state in which the domain was left. Unchecked are the disks for whose
// images it was not started: disk.CheckImage must look at them before.
type PowerResult struct {
	PowerState compute.PowerState `json:"power_state"`
	Unchecked  []compute.DiskID   `json:"unchecked,omitempty"`
}
