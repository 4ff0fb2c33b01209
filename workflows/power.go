package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/compute"
	"strongroom/durable"
)

// shutdownGrace is how long a guest may take to shut itself down, in seconds.
const shutdownGrace = 60

// Start boots a stopped server. Who may not read its keys changes nothing: the
// server stays stopped, its TPM and secrets intact (TPM-13, TPM-14).
func Start(ctx workflow.Context, in durable.OperationInput) error {
	return operate(ctx, in, func(o *operation) story { return &start{o} })
}

type start struct{ *operation }

func (s *start) run(ctx workflow.Context) error {
	host, err := s.host()
	if err != nil {
		return err
	}
	power := compute.PowerNone
	if err := s.take(ctx, s.boot(host, &power)); err != nil {
		return err
	}
	return s.commit(ctx, record.SettleInput{VMState: s.server.RunningState(), Power: power, Launched: true})
}

func (s *start) outcome(*compute.Error) record.SettleInput { return stopped() }

// Stop shuts a server down: by its power button, and by force when it does not
// listen.
func Stop(ctx workflow.Context, in durable.OperationInput) error {
	return operate(ctx, in, func(o *operation) story { return &stop{o} })
}

type stop struct{ *operation }

func (s *stop) run(ctx workflow.Context) error {
	host, err := s.host()
	if err != nil {
		return err
	}
	if err := s.take(ctx, s.shutdown(host, shutdownGrace)); err != nil {
		return err
	}
	return s.commit(ctx, stopped())
}

// outcome leaves the server as it was: a stop that failed did not stop it.
func (s *stop) outcome(*compute.Error) record.SettleInput {
	return s.unchanged()
}

// Reboot shuts a server down, softly or by force, and boots it afresh: its keys
// are read again (TPM-13).
func Reboot(ctx workflow.Context, in durable.OperationInput) error {
	return operate(ctx, in, func(o *operation) story { return &reboot{operation: o, hard: o.asked.Reboot.Hard} })
}

type reboot struct {
	*operation
	hard bool
	down bool // it was shut down, so an end now leaves it stopped
}

func (r *reboot) run(ctx workflow.Context) error {
	host, err := r.host()
	if err != nil {
		return err
	}
	grace, begun := shutdownGrace, compute.TaskRebootStarted
	if r.hard {
		grace, begun = 0, compute.TaskRebootStartedHard
	}
	if err := r.task(ctx, begun); err != nil {
		return err
	}
	if err := r.take(ctx, r.shutdown(host, grace)); err != nil {
		return err
	}
	r.down = true
	power := compute.PowerNone
	if err := r.take(ctx, r.boot(host, &power)); err != nil {
		return err
	}
	return r.commit(ctx, record.SettleInput{VMState: r.server.RunningState(), Power: power, Launched: true})
}

// outcome tells the truth about a server that went down and could not come up
// again: it is stopped, and its owner can start it.
func (r *reboot) outcome(*compute.Error) record.SettleInput {
	if r.down {
		return stopped()
	}
	return r.unchanged()
}

func stopped() record.SettleInput {
	return record.SettleInput{VMState: compute.VMStopped, Power: compute.PowerShutdown}
}

// boot is the step that runs the server's domain.
func (o *operation) boot(host compute.HostID, power *compute.PowerState) step {
	return o.bootAs(domain.StartInput{Server: o.server}, host, power)
}

// bootAs is boot with the server as it was before the operation, or as it is to be.
func (o *operation) bootAs(in domain.StartInput, host compute.HostID, power *compute.PowerState) step {
	server := in.Server
	in.Keys = server.Keyring(o.asked.Credential)
	s := step{event: "start_domain", host: &host}
	for _, id := range server.Secrets() {
		s.makes = append(s.makes, o.thing(compute.ThingHypervisorSecret, host.String(), id.String()))
	}
	s.releases = s.makes
	s.do = func(ctx workflow.Context) error {
		quick := durable.HostQuick(ctx, host)
		if err := o.makeConfigDrive(quick, server); err != nil {
			return err
		}
		var got domain.PowerResult
		err := workflow.ExecuteActivity(quick, domain.Start, in).Get(ctx, &got)
		*power = got.PowerState
		return err
	}
	s.undo = func(ctx workflow.Context) error {
		undo := durable.HostUndo(ctx, host)
		if err := workflow.ExecuteActivity(undo, domain.Stop, domain.StopInput{Server: o.Server}).Get(ctx, nil); err != nil {
			return err
		}
		return o.forgetSecrets(ctx, host, server)
	}
	return s
}

// makeConfigDrive has the server's config drive, if it is to have one, made for
// this boot: with its metadata of now, and with the passphrase that its root disk
// has now. It is on the ledger since the server's first boot on its host.
func (o *operation) makeConfigDrive(ctx workflow.Context, server compute.Server) error {
	if !server.ConfigDrive {
		return nil
	}
	in := disk.ConfigDriveInput{Server: server, Credential: server.Keyring(o.asked.Credential).Disks}
	onRecord, _ := o.asked.Server.RootDisk()
	if root, _ := server.RootDisk(); root.ID != onRecord.ID {
		in.Ahead = &o.Operation
	}
	return workflow.ExecuteActivity(ctx, disk.CreateConfigDrive, in).Get(ctx, nil)
}

// forgetSecrets takes back from libvirt what boot lends it.
func (o *operation) forgetSecrets(ctx workflow.Context, host compute.HostID, server compute.Server) error {
	in := domain.ForgetSecretsInput{Server: o.Server, Secrets: server.Secrets()}
	return workflow.ExecuteActivity(durable.HostUndo(ctx, host), domain.ForgetSecrets, in).Get(ctx, nil)
}

// shutdown is the step that takes the server's domain down.
func (o *operation) shutdown(host compute.HostID, grace int) step {
	return step{event: "stop_domain", host: &host, do: func(ctx workflow.Context) error {
		quick := durable.HostQuick(ctx, host)
		return workflow.ExecuteActivity(quick, domain.Stop, domain.StopInput{Server: o.Server, GraceSeconds: grace}).Get(ctx, nil)
	}}
}

// deleteFiles removes files from the server's folder on a host.
func (o *operation) deleteFiles(ctx workflow.Context, host compute.HostID, files ...string) error {
	onHost := durable.HostUndo(ctx, host)
	calls := make([]workflow.Future, len(files))
	for i, f := range files {
		calls[i] = workflow.ExecuteActivity(onHost, disk.Delete, disk.DeleteInput{Server: o.Server, File: f})
	}
	return all(ctx, calls)
}

// destroy leaves neither a domain nor TPM state.
func (o *operation) destroy(ctx workflow.Context, host compute.HostID) error {
	undo := durable.HostUndo(ctx, host)
	if err := workflow.ExecuteActivity(undo, domain.Destroy, domain.DestroyInput{Server: o.Server}).Get(ctx, nil); err != nil {
		return err
	}
	return workflow.ExecuteActivity(undo, tpm.Delete, tpm.DeleteInput{Server: o.Server}).Get(ctx, nil)
}
