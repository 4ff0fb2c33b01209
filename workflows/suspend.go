package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/domain"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// Suspend writes the memory of a server's guest to its host's disk and turns its machine off. When it fails or is
// cancelled, the guest goes on; where it cannot, as for who may not read its keys, the server is suspended.
func Suspend(ctx workflow.Context, in durable.OperationInput) error {
	return onMachine(ctx, in, func(m *machine) body { return &suspend{machine: m} })
}

type suspend struct {
	*machine
	saved bool // its guest is suspended, or was not seen to go on where its host was to let it
}

func (s *suspend) run(ctx workflow.Context) error {
	if err := s.take(ctx, step{
		event: "suspend_domain", host: &s.host, borrows: s.lentSecrets(),
		do: func(ctx workflow.Context) error {
			err := s.save(ctx)
			s.saved = err == nil
			return err
		},
		undo: func(ctx workflow.Context) error {
			err := unlessOff(s.goOn)(ctx)
			s.saved = err != nil
			return err
		},
	}); err != nil {
		return err
	}
	return s.commit(ctx, suspendedServer)
}

var suspendedServer = record.SettleInput{VMState: compute.VMSuspended, Power: compute.PowerShutdown}

// outcome: of a host that is down nobody knows what became of the guest. The server is as it was there, and can be evacuated.
func (s *suspend) outcome(workflow.Context, *compute.Error) record.SettleInput {
	if s.saved {
		return suspendedServer
	}
	return s.unchanged()
}

// Resume lets a suspended guest go on where it was. When it fails or is cancelled, the guest is suspended as before; one
// whose memory is lost is booted by a hard reboot.
func Resume(ctx workflow.Context, in durable.OperationInput) error {
	return onMachine(ctx, in, func(m *machine) body { return &resume{m} })
}

type resume struct{ *machine }

func (r *resume) run(ctx workflow.Context) error {
	if err := r.bindPorts(ctx); err != nil {
		return err
	}
	if err := r.take(ctx, step{event: "resume_domain", host: &r.host, borrows: r.lentSecrets(), do: r.goOn, undo: unlessOff(r.save)}); err != nil {
		return err
	}
	return r.commit(ctx, record.SettleInput{VMState: compute.VMActive, Power: r.power})
}

func (r *resume) outcome(workflow.Context, *compute.Error) record.SettleInput { return r.unchanged() }

// save suspends the machine's domain, on a host that encrypts the memory of its guest where that may not lie in clear.
func (m *machine) save(ctx workflow.Context) error {
	return m.longWork(ctx, func(limit time.Duration) error {
		return domain.Suspend.On(m.host).TakenWithin(limit).Do(ctx, domain.SuspendInput{Server: m.Server, Encrypted: m.server.MemoryIsSecret()})
	}, compute.Errorf(compute.Unavailable, "server %s: the host had no time to write the memory of its guest", m.Server))
}

// goOn starts the machine's domain with the memory that it was suspended with.
func (m *machine) goOn(ctx workflow.Context) error {
	return m.start(ctx, domain.StartInput{
		Server: m.server, Keys: m.ring(), Operation: m.Operation, Began: m.asked.Began, Suspended: true,
	})
}
