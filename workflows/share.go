package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/domain"
	"strongroom/activities/mount"
	"strongroom/activities/record"
	"strongroom/activities/share"
	"strongroom/compute"
	"strongroom/durable"
)

// ShareAttach lets the host of a server that is off have a share for it: the server has it from
// its next start on (SH-03). A guest that runs has it at once. A share to which the host gets no access is in error, and may be
// detached.
func ShareAttach(ctx workflow.Context, in durable.OperationInput) error {
	return onMachineWith(ctx, in, compute.ShareAttach, func(m *machine, in compute.ShareArguments) body {
		return &shareAttach{machine: m, in: in}
	})
}

type shareAttach struct {
	*machine
	in compute.ShareArguments
}

func (s *shareAttach) run(ctx workflow.Context) error {
	if err := s.take(ctx, step{
		event: "allow_share", makes: []compute.Thing{s.accessTo(s.in.Share)},
		do: s.allow,
	}); err != nil {
		return err
	}
	end, event := s.unchanged(), compute.ShareGranted
	if s.in.Live {
		event = compute.ShareAdded
		if err := s.plug(ctx); err != nil {
			return err
		}
	}
	end.Shares = []record.ShareChange{{Share: s.in.Share, Event: event}}
	return s.commit(ctx, end)
}

// plug mounts the share on the host and gives it to the guest that runs.
func (s *shareAttach) plug(ctx workflow.Context) error {
	i := slices.IndexFunc(s.server.Shares, func(m compute.ShareMapping) bool { return m.Share == s.in.Share })
	if i < 0 {
		return compute.Errorf(compute.Conflict, "server %s has no share %s", s.Server, s.in.Share)
	}
	m := s.server.Shares[i]
	if err := s.take(ctx, step{
		event: "mount_share", host: &s.host, makes: []compute.Thing{s.mountOf(m)},
		do: func(ctx workflow.Context) error { return mount.Mount.On(s.host).Do(ctx, s.mountInput(m)) },
	}); err != nil {
		return err
	}
	device := domain.ShareInput{Server: s.Server, Share: m.Share, Tag: m.Tag}
	return s.take(ctx, step{
		event: "attach_share", host: &s.host,
		do:   func(ctx workflow.Context) error { return domain.AttachShare.On(s.host).Do(ctx, device) },
		undo: func(ctx workflow.Context) error { return domain.DetachShare.On(s.host).Do(ctx, device) },
	})
}

func (s *shareAttach) allow(ctx workflow.Context) error {
	asked := s.asked.Credential
	found, err := share.Look.Run(ctx, share.LookInput{Credential: asked, Share: s.in.Share})
	if err != nil {
		return err
	}
	to := share.GranteeOf(found.Protocol, s.host.ID, s.in.Share, s.in.Address) // all of the host's servers use one mount
	return share.Allow.Do(ctx, share.AllowInput{Credential: asked, Share: s.in.Share, Server: s.Server, To: to, Level: share.ReadWrite})
}

func (s *shareAttach) outcome(workflow.Context, *compute.Error) record.SettleInput {
	end := s.unchanged()
	end.Shares = []record.ShareChange{{Share: s.in.Share, Event: compute.ShareRefused}}
	return end
}

// ShareDetach takes a share from a server that is off, or in ERROR (SH-16), or from a guest that runs and gives it back. What cannot be removed
// now waits on the ledger: a mount for the end of a guest that still runs, an access rule for that
// mount (SH-17).
func ShareDetach(ctx workflow.Context, in durable.OperationInput) error {
	return onMachineWith(ctx, in, compute.ShareDetach, func(m *machine, in compute.ShareArguments) body {
		return &shareDetach{machine: m, in: in}
	})
}

type shareDetach struct {
	*machine
	in compute.ShareArguments
}

func (s *shareDetach) run(ctx workflow.Context) error {
	if s.in.Live {
		if err := s.take(ctx, step{
			event: "detach_share", host: &s.host,
			do: func(ctx workflow.Context) error {
				return domain.DetachShare.On(s.host).Do(ctx, domain.ShareInput{Server: s.Server, Share: s.in.Share})
			},
		}); err != nil {
			return err
		}
	}
	mounted := compute.ShareMapping{Share: s.in.Share}
	if err := s.removeAfterCommit(ctx, "remove_share", []compute.Thing{s.mountOf(mounted), s.accessTo(s.in.Share)}); err != nil {
		return err
	}
	end := s.unchanged()
	end.Shares = []record.ShareChange{{Share: s.in.Share, Gone: true}}
	return s.commit(ctx, end)
}

func (s *shareDetach) outcome(workflow.Context, *compute.Error) record.SettleInput {
	end := s.unchanged()
	end.Shares = []record.ShareChange{{Share: s.in.Share, Event: compute.ShareKept}}
	return end
}

// accessTo names the server's part in the rule that lets its host in to a share.
func (m *machine) accessTo(id compute.ShareID) compute.Thing {
	return m.thing(compute.ThingShareAccess, compute.PlaceShares, compute.ShareUse(id, m.Server))
}

// mountOf names the server's use of its host's mount of a share.
func (m *machine) mountOf(s compute.ShareMapping) compute.Thing {
	return m.onHost(compute.ThingShareMount, m.host, compute.ShareUse(s.Share, m.Server))
}

// shareMounts is how the mounts of a machine's shares went.
type shareMounts struct {
	failed []compute.ShareID // could not be mounted
}

// mountShares mounts the server's shares before it is booted, all of them or none: the undo of
// the boot ends those that were made.
func (m *machine) mountShares(ctx workflow.Context) error {
	m.shares = shareMounts{}
	var calls []durable.Future[durable.None]
	for _, s := range m.server.Shares {
		if err := s.CheckMountable(); err != nil {
			m.shares.failed = append(m.shares.failed, s.Share)
			return err
		}
		if s.Status == compute.ShareError { // SH-33
			workflow.GetLogger(ctx).Warn("a share that was in error is mounted again", "share", s.Share, "server", m.Server)
		}
	}
	if err := m.allowAgain(ctx); err != nil {
		return err
	}
	for _, s := range m.server.Shares {
		calls = append(calls, mount.Mount.On(m.host).Start(ctx, m.mountInput(s)))
	}
	for i, c := range calls {
		if _, err := c.Result(ctx); err != nil && ctx.Err() == nil {
			m.shares.failed = append(m.shares.failed, m.server.Shares[i].Share)
		}
	}
	_, err := awaitAll(ctx, calls)
	return err
}

func (m *machine) mountInput(s compute.ShareMapping) mount.Input {
	return mount.Input{
		Credential: m.server.OwnersCredential(m.asked.Credential), Share: s.Share, Protocol: s.Protocol,
		Server: m.Server, Operation: m.Operation, Began: m.asked.Began,
	}
}

// allowAgain ensures that the host has access to the server's shares: where the service has no locks, users can take its rules away, and a share in error may never have had one.
func (m *machine) allowAgain(ctx workflow.Context) error {
	var calls []durable.Future[share.AllowResult]
	var of []compute.ShareID
	for _, s := range m.server.Shares {
		if !s.HasRule() {
			continue
		}
		of = append(of, s.Share)
		calls = append(calls, share.Allow.Start(ctx, share.AllowInput{
			Credential: m.server.OwnersCredential(m.asked.Credential), Share: s.Share, Server: m.Server,
			To: share.GranteeOf(share.Protocol(s.Protocol), m.host.ID, s.Share, s.Address), Level: share.ReadWrite,
		}))
	}
	for i, c := range calls {
		if _, err := c.Result(ctx); err != nil && ctx.Err() == nil {
			m.shares.failed = append(m.shares.failed, of[i])
		}
	}
	_, err := awaitAll(ctx, calls)
	return err
}

// unmountShares ends the mounts of the server's shares once it is off. The context that it gives
// is never cancelled: the server is off, and its shares are as they are told to be.
func (m *machine) unmountShares(ctx workflow.Context) (workflow.Context, error) {
	if len(m.server.Shares) == 0 {
		return ctx, nil
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	var mounts []compute.Thing
	for _, s := range m.server.Shares {
		mounts = append(mounts, m.mountOf(s))
	}
	return ctx, m.removeAfterCommit(ctx, "unmount_shares", mounts)
}

// sharesAre gives what became of each of the server's shares: all the same, but for those that
// could not be mounted, or not be unmounted.
func (m *machine) sharesAre(event compute.ShareEvent) []record.ShareChange {
	var out []record.ShareChange
	for _, s := range m.server.Shares {
		c := record.ShareChange{Share: s.Share, Event: event}
		stuck := func(t compute.Thing) bool {
			return t.Kind == compute.ThingShareMount && t.Name == compute.ShareUse(s.Share, m.Server)
		}
		switch {
		case slices.Contains(m.shares.failed, s.Share):
			c.Event = compute.ShareNotMounted
		case event == compute.ShareUnmounted && slices.ContainsFunc(m.waiting, stuck):
			c.Event = compute.ShareStuck
		}
		out = append(out, c)
	}
	return out
}

// offAfter leaves the server off after a boot that failed: in ERROR if that was for a share
// (SH-12, SH-13), which a hard reboot mends once its cause is gone (SH-14).
func (m *machine) offAfter(ctx workflow.Context, cause *compute.Error) record.SettleInput {
	end := stopped()
	if len(m.shares.failed) > 0 {
		end.VMState, end.Fault = compute.VMError, faultOf(ctx, cause)
	}
	end.Shares = m.sharesAre(compute.ShareUnmounted)
	return end
}
