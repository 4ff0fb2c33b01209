package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// Spawn makes a server: a host, secrets, disks, a running domain. Whatever ends
// it early, nothing that it made is left; the server stays in ERROR with a
// fault that says why (EE-36).
func Spawn(ctx workflow.Context, in durable.OperationInput) error {
	return operate(ctx, in, func(o *operation) story { return &spawn{build: build{operation: o}, now: ctx} })
}

type spawn struct {
	build
	now workflow.Context
}

func (s *spawn) run(ctx workflow.Context) error {
	for _, next := range []func(workflow.Context) error{
		s.delegate, s.place, s.makeSecrets, s.spawnDisks, s.start,
	} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	return s.commit(ctx, record.SettleInput{VMState: compute.VMActive, Power: s.power, Launched: true})
}

func (s *spawn) outcome(err *compute.Error) record.SettleInput {
	return record.SettleInput{VMState: compute.VMError, Fault: faultOf(s.now, err)}
}

// place claims a host and has the image there. A host whose worker does not
// take the work within a minute is given up for another one.
func (s *spawn) place(ctx workflow.Context) error {
	var silent []compute.HostID
	s.saga.DeferLast("claim_host", func(ctx workflow.Context) error {
		return recorded(ctx, record.Unclaim, s.OperationInput, nil)
	})
	for {
		if err := s.claim(ctx, silent); err != nil {
			return err
		}
		cached, err := s.cacheImage(s.host, durable.HostUnbound)
		if err != nil {
			return err
		}
		err = s.take(ctx, cached.step)
		if !durable.IsHostSilent(err) {
			return err
		}
		if err := s.passBy(ctx, cached, durable.WasTaken(err)); err != nil {
			return err
		}
		silent = append(silent, s.host)
	}
}

func (s *spawn) claim(ctx workflow.Context, not []compute.HostID) error {
	return s.take(ctx, step{event: "claim_host", do: func(ctx workflow.Context) error {
		var got record.ClaimResult
		in := record.ClaimInput{OperationInput: s.OperationInput, Plan: s.server, Not: not}
		if err := recorded(ctx, record.Claim, in, &got); err != nil {
			return err
		}
		s.host, s.hostName, s.server.Host = got.Host, got.Name, &got.Host
		return s.task(ctx, compute.TaskBlockDevice)
	}})
}

func (s *spawn) spawnDisks(ctx workflow.Context) error { return s.makeDisks(ctx, compute.TaskSpawning) }
