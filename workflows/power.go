package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/domain"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// shutdownGrace is how long a guest may take to shut itself down, in seconds.
const shutdownGrace = 60

// onMachine is operate for an operation on the machine that a server is.
func onMachine(ctx workflow.Context, in durable.OperationInput, newBody func(*machine) body) error {
	return operate(ctx, in, func(o *operation) body {
		host, err := o.host()
		if err != nil {
			return refused{o, err}
		}
		return newBody(&machine{operation: o, server: o.server, host: host})
	})
}

// onMachineWith is onMachine for an operation with arguments.
func onMachineWith[A any](ctx workflow.Context, in durable.OperationInput, action compute.Action[A], newBody func(*machine, A) body) error {
	return onMachine(ctx, in, func(m *machine) body {
		arguments, err := action.Read(m.asked.Arguments)
		if err != nil {
			return refused{m.operation, err}
		}
		return newBody(m, arguments)
	})
}

// refused is what an operation does that cannot begin: its server is on no host, its
// arguments are another kind's, or its record does not go through Temporal (K15).
type refused struct {
	*operation
	err error
}

func (n refused) run(workflow.Context) error { return n.err }

func (n refused) outcome(workflow.Context, *compute.Error) record.SettleInput {
	if n.server.VMState == compute.VMBuilding { // there is none
		return record.SettleInput{VMState: compute.VMError}
	}
	return n.unchanged()
}

// Start boots a stopped server. Who may not read its keys changes nothing: the
// server stays stopped, its TPM and secrets intact (TPM-13, TPM-14). A share that cannot be
// mounted leaves it in ERROR (SH-12).
func Start(ctx workflow.Context, in durable.OperationInput) error {
	return onMachine(ctx, in, func(m *machine) body { return &start{m} })
}

type start struct{ *machine }

func (s *start) run(ctx workflow.Context) error {
	if err := s.bindPorts(ctx); err != nil {
		return err
	}
	if err := s.take(ctx, s.boot(domain.StartInput{})); err != nil {
		return err
	}
	return s.commit(ctx, record.SettleInput{VMState: s.server.RunningState(), Power: s.power, Launched: true, Shares: s.sharesAre(compute.ShareMounted)})
}

func (s *start) outcome(ctx workflow.Context, cause *compute.Error) record.SettleInput {
	return s.offAfter(ctx, cause)
}

// Stop shuts a server down: by its power button, and by force when it does not
// listen. Where the state of its vTPM is to be backed up, it is.
func Stop(ctx workflow.Context, in durable.OperationInput) error {
	return onMachine(ctx, in, func(m *machine) body { return &stop{m} })
}

type stop struct{ *machine }

func (s *stop) run(ctx workflow.Context) error {
	if err := s.take(ctx, s.shutdown(shutdownGrace)); err != nil {
		return err
	}
	ctx, err := s.unmountShares(ctx)
	if err != nil {
		return err
	}
	end := stopped()
	end.Shares = s.sharesAre(compute.ShareUnmounted)
	if s.asked.BacksUpTPM && !s.server.HasNewTPM() {
		backedUp, err := s.keepBackup(ctx, true)
		switch {
		case err == nil:
			ctx = backedUp
		case ctx.Err() != nil || record.IsSuperseded(err):
			return err
		default: // the server is off all the same
			s.undo(ctx)
			end.Message = "The state of the vTPM was not backed up: " + compute.Public(durable.FromTemporal(err))
		}
	}
	return s.commit(ctx, end)
}

// outcome leaves the server as it was: a stop that failed did not stop it.
func (s *stop) outcome(workflow.Context, *compute.Error) record.SettleInput { return s.unchanged() }

// Reboot shuts a server down, softly or by force, and boots it afresh: its keys
// are read again (TPM-13). Who may not read them does not even stop it (TPM-14, EE-38).
func Reboot(ctx workflow.Context, in durable.OperationInput) error {
	return onMachineWith(ctx, in, compute.Reboot, func(m *machine, in compute.RebootArguments) body {
		return &reboot{machine: m, hard: in.Hard}
	})
}

type reboot struct {
	*machine
	hard bool
	down bool // it was shut down, so an end now leaves it stopped
}

func (r *reboot) run(ctx workflow.Context) error {
	grace, begun := shutdownGrace, compute.TaskRebootStarted
	if r.hard {
		grace, begun = 0, compute.TaskRebootStartedHard
	}
	if err := r.checkReadable(ctx, r.server.OpeningSecrets(), r.server); err != nil {
		return err
	}
	if err := r.bindPorts(ctx); err != nil {
		return err
	}
	down := r.shutdown(grace)
	down.task = begun
	if err := r.take(ctx, down); err != nil {
		return err
	}
	r.down = true
	if err := r.take(ctx, r.boot(domain.StartInput{})); err != nil {
		return err
	}
	return r.commit(ctx, record.SettleInput{VMState: r.server.RunningState(), Power: r.power, Launched: true, Shares: r.sharesAre(compute.ShareMounted)})
}

// outcome tells the truth about a server that went down and could not come up
// again: it is stopped, and its owner can start it.
func (r *reboot) outcome(ctx workflow.Context, cause *compute.Error) record.SettleInput {
	if r.down {
		return r.offAfter(ctx, cause)
	}
	return r.unchanged()
}

func stopped() record.SettleInput {
	return record.SettleInput{VMState: compute.VMStopped, Power: compute.PowerShutdown}
}
