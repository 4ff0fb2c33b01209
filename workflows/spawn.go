package workflows

import (
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/placement"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// Spawn makes a server: a host, secrets, disks, a running domain. Whatever ends
// it early, nothing that it made is left; the server stays in ERROR with a
// fault that says why (EE-36).
func Spawn(ctx workflow.Context, in durable.OperationInput) error {
	return operate(ctx, in, func(o *operation) body {
		return &spawn{switchover{operation: o, to: &machine{operation: o, server: o.server}}}
	})
}

type spawn struct{ switchover }

func (s *spawn) run(ctx workflow.Context) error {
	for _, next := range []func(workflow.Context) error{s.delegate, s.place, s.makeSecrets, s.spawnDisks, s.start} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	return s.commit(ctx, record.SettleInput{VMState: compute.VMActive, Power: s.to.power, Launched: true})
}

// place claims a host and caches the image there. If the host's worker does not take
// the work in time, another host is claimed.
func (s *spawn) place(ctx workflow.Context) error {
	s.saga.Defer(durable.Undo{Step: "claim_host", Last: true, Run: func(ctx workflow.Context) error {
		return placement.Unclaim.Do(ctx, s.OperationInput)
	}})
	var silent []compute.HostID
	for {
		if err := s.claim(ctx, silent); err != nil {
			return err
		}
		cached, err := s.fetch()
		if err != nil {
			return err
		}
		if err = s.take(ctx, cached); !durable.IsHostSilent(err) {
			return err
		}
		s.giveUpHost(cached, durable.WasTaken(err))
		silent = append(silent, s.to.host.ID)
	}
}

func (s *spawn) claim(ctx workflow.Context, not []compute.HostID) error {
	return s.take(ctx, step{event: "claim_host", do: func(ctx workflow.Context) error {
		got, err := placement.Claim.Run(ctx, placement.ClaimInput{OperationInput: s.OperationInput, Plan: s.to.server, Not: not})
		s.to.host = durable.Host{ID: got.Host, Name: got.Name}
		s.to.server.Host = &got.Host
		if err != nil {
			return err
		}
		return durable.DescribeHosts(ctx, got.Name)
	}})
}

func (s *spawn) fetch() (step, error) {
	root, _ := s.to.server.RootDisk()
	cached, err := s.cacheImage(root, s.to.server.Image, s.to.host, orElsewhere)
	cached.task = compute.TaskBlockDevice
	return cached, err
}

func (s *spawn) spawnDisks(ctx workflow.Context) error {
	return s.makeDisks(ctx, compute.TaskSpawning)
}

// giveUpHost closes the caching step on a host that does not answer, before another host
// is claimed. A host that never took the work has made nothing. One that took it may have
// a part of the image: that waits for the host on the ledger, and nothing waits for it.
func (s *spawn) giveUpHost(cached step, took bool) {
	end := cached.ended()
	end.Error = "the host did not take the work"
	if took {
		end.Error = reasonHostDown
		for _, t := range cached.makes {
			s.wait(&end, t.Waits(compute.BlockedByHost, reasonHostDown))
		}
	} else {
		end.Released = cached.makes
	}
	s.unwritten.Close = &end
	if len(cached.makes) > 0 {
		s.saga.Drop() // the ledger has what is left
	}
}
