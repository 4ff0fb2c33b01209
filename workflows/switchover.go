package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/domain"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// switchover takes a server's domain down so that another one can take its place,
// and brings it back when that is undone.
type switchover struct {
	*operation
	host     compute.HostID
	was      compute.Server // that the old domain is made of
	restarts int            // of the old domain that failed
	down     bool           // the old domain could not be started again
}

// ran reports whether the server is to run when the operation is undone.
func (s *switchover) ran() bool {
	return s.was.VMState == compute.VMActive || s.was.PowerState == compute.PowerRunning
}

// outcome leaves the server as it was, if it could be.
func (s *switchover) outcome() record.SettleInput {
	end := record.SettleInput{VMState: s.was.VMState, Power: s.was.PowerState}
	if s.down {
		end.Power = compute.PowerShutdown
		if end.VMState == compute.VMActive {
			end.VMState = compute.VMStopped
		}
	}
	return end
}

// halt shuts the old domain down, when everything is ready for the new one.
func (s *switchover) halt(ctx workflow.Context) error {
	down := s.shutdown(s.host, shutdownGrace)
	if s.ran() {
		task := s.was.TaskState
		down.undo = func(ctx workflow.Context) error { return s.restart(ctx, task) }
		down.lean = true // after the new domain is gone
	}
	return s.take(ctx, down)
}

// mostRestarts is how often the old domain is started before it is given up: in
// some ten minutes.
const mostRestarts = 8

// restart is the undo of halt. A server that nobody's credential starts any more,
// or that does not start, is left stopped, for its owner to see to it. One that
// was lost is another operation's to start.
func (s *switchover) restart(ctx workflow.Context, task compute.TaskState) error {
	if err := s.task(ctx, task); err != nil {
		return lostIsFine(err)
	}
	// A guest that was told to shut down does so, now or in a moment.
	stop := domain.StopInput{Server: s.Server, GraceSeconds: shutdownGrace}
	if err := workflow.ExecuteActivity(durable.HostUndo(ctx, s.host), domain.Stop, stop).Get(ctx, nil); err != nil {
		return err
	}
	power := compute.PowerNone
	boot := s.bootAs(domain.StartInput{Server: s.was}, s.host, &power)
	boot.event, boot.undo = "restart_domain", nil
	start, failure := boot.do, error(nil)
	boot.do = func(ctx workflow.Context) error { failure = start(ctx); return failure }
	if err := s.take(ctx, boot); failure == nil {
		return lostIsFine(err)
	}
	if err := s.forgetSecrets(ctx, s.host, s.was); err != nil {
		return err
	}
	why := durable.FromTemporal(failure)
	if err := s.close(ctx, record.CloseInput{Event: boot.event, Error: why.Message, Released: boot.releases}); err != nil {
		return err
	}
	if s.restarts++; why.Kind == compute.Forbidden || s.restarts == mostRestarts {
		s.down = true
		return nil
	}
	return failure
}

func lostIsFine(err error) error {
	if record.IsSuperseded(err) {
		return nil
	}
	return err
}
