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
		return &spawn{switchover: switchover{operation: o, to: &machine{operation: o, server: o.server}}}
	})
}

type spawn struct {
	switchover
	plugging plugging
}

func (s *spawn) run(ctx workflow.Context) error {
	for _, next := range []func(workflow.Context) error{s.delegate, s.place, s.plug, s.makeSecrets, s.spawnDisks, s.start, s.awaitPorts} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	return s.commit(ctx, record.SettleInput{VMState: compute.VMActive, Power: s.to.power, Launched: true})
}

// place claims a host and caches the image there. If the host's worker does not take
// the work in time, another host is claimed.
func (s *spawn) place(ctx workflow.Context) error {
	s.unclaimLast()
	var silent []compute.HostID
	plan := s.to.server
	for {
		s.to.server = plan // another host may have another default format
		if err := s.claim(ctx, placement.ClaimInput{Not: silent}); err != nil {
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

func (s *spawn) fetch() (step, error) {
	root, _ := s.to.server.RootDisk()
	cached, err := s.cacheImage(root, s.to.server.Image, s.to.host, orElsewhere)
	cached.task = compute.TaskBlockDevice
	return cached, err
}

func (s *spawn) spawnDisks(ctx workflow.Context) error {
	return s.makeDisks(ctx, compute.TaskSpawning)
}
