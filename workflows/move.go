package workflows

import (
	"cmp"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/ledger"
	"strongroom/activities/placement"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/compute"
	"strongroom/durable"
)

// Resize gives a server another flavor, on its host or on another one, with its disks and the
// state of its vTPM as they are (TPM-16). What it was stays, off, until somebody confirms or
// reverts (TPM-17 … TPM-19). When it fails or is cancelled, the server is as it was.
func Resize(ctx workflow.Context, in durable.OperationInput) error {
	return onMachineWith(ctx, in, compute.Resize, func(m *machine, in compute.ResizeArguments) body {
		return &migration{
			switchover: switchover{operation: m.operation, from: m}, kind: "resize", diskConfig: in.DiskConfig, confirmAfter: in.ConfirmAfter, sameHost: in.SameHost,
			plan: func() (compute.Server, error) { return m.server.ResizedTo(m.Operation, in.Flavor) },
		}
	})
}

// Migrate moves a server to another host, off, as a resize to its own flavor would.
func Migrate(ctx workflow.Context, in durable.OperationInput) error {
	return onMachineWith(ctx, in, compute.Migrate, func(m *machine, in compute.MigrateArguments) body {
		return &migration{
			switchover: switchover{operation: m.operation, from: m}, kind: "migration", only: in.Host, confirmAfter: in.ConfirmAfter,
			plan: func() (compute.Server, error) { return m.server, m.server.CheckMovable() },
		}
	})
}

// migration is a resize or a migration, on one host or between two.
type migration struct {
	switchover
	kind         string
	plan         func() (compute.Server, error)
	sameHost     bool
	only         *compute.HostID // nil: any host
	diskConfig   *string
	confirmAfter int
	bytes        int64            // that its disks have
	nvramBytes   int64            // that the variables of its UEFI have
	sharedTPM    bool             // both hosts have the state of its vTPM on one storage
	apart        []compute.HostID // hosts that share that storage, where the server does not go to one
}

func (m *migration) run(ctx workflow.Context) error {
	server, err := m.plan()
	if err != nil {
		return err
	}
	m.to = &machine{operation: m.operation, server: server}
	if err := m.from.server.CheckMover(server, m.asked.Credential); err != nil {
		return err
	}
	for _, next := range []func(workflow.Context) error{
		m.delegate, m.checkKeys, m.checkDisks, m.place, m.findTPM, m.fetch, m.makeSecrets, m.halt, m.receive, m.moveDisks, m.moveTPM, m.movePorts, m.startMoved,
	} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	return m.commit(ctx, record.SettleInput{
		VMState: compute.VMResized, Power: m.to.power, Launched: true,
		Move: &record.Move{To: m.to.server, DiskConfig: m.diskConfig, ConfirmAfter: m.confirmAfter, SharedTPM: m.sharedTPM},
	})
}

// boots reports whether the server is to run when it was moved: one that was off stays off.
func (m *migration) boots() bool { return m.from.server.VMState != compute.VMStopped }

// checkKeys sees that whoever asks may read the keys that are needed, before anything moves
// (EE-30): all of them to start the guest, and those of disks that grow or are made anew. A
// server that is off is moved with none.
func (m *migration) checkKeys(ctx workflow.Context) error {
	return m.checkReadable(ctx, m.from.server.MoveKeys(m.to.server), m.from.server.MoveReaders(m.to.server)...)
}

// former is the old machine's disk that one of the new machine is made of; nil: it is made anew.
func (m *migration) former(d compute.Disk) *compute.Disk { return m.from.server.DiskFor(d) }

// stays reports whether the server is moved on its own host.
func (m *migration) stays() bool { return m.to.host.ID == m.from.host.ID }

// findTPM finds out whether the state of the vTPM stays where it is (TPM-39), before the guest is
// stopped.
func (m *migration) findTPM(ctx workflow.Context) (err error) {
	m.sharedTPM, err = m.sharesTPM(ctx)
	return err
}

// keepsPlace reports whether the state of the vTPM stays where it is.
func (m *migration) keepsPlace() bool { return m.stays() || m.sharedTPM }

// place claims a host. If its worker does not take work in time, it has no room for the disks, or it cannot
// plug the server's ports, another one is claimed.
func (m *migration) place(ctx workflow.Context) error {
	m.unclaimLast()
	not, err := m.occupied(ctx)
	if err != nil {
		return err
	}
	not = append(not, m.apart...)
	var refusal error
	for {
		if err := m.claim(ctx, placement.ClaimInput{Not: not, Only: m.only}); err != nil {
			return cmp.Or(refusal, m.unplaced(ctx, err))
		}
		m.unwritten.Migration = &record.Migration{Type: m.kind, To: m.to.host.ID, Flavor: m.to.server.Flavor.ID}
		check := m.checkRoom(m.to.host, compute.TaskNone, m.comes())
		err := m.take(ctx, check)
		if err == nil {
			err = m.preparePorts(ctx)
		}
		switch silent := durable.IsHostSilent(err); {
		case err == nil && m.stays():
			m.to.server = m.to.server.InNewFiles(m.Operation)
			return nil
		case err == nil:
			m.to.server = m.to.server.WithUnbooted(true)
			return nil
		case m.only != nil, !silent && !lacksRoom(err):
			return err
		case silent:
			m.giveUpHost(check, false)
		default:
			refusal = err
		}
		not = append(not, m.to.host.ID)
	}
}

// comes is what the disks need on the host that was claimed.
func (m *migration) comes() disk.CheckRoomInput {
	in := disk.CheckRoomInput{Disks: len(m.to.server.Disks), Bytes: m.bytes, NVRAM: comingNVRAM(m.to.server, m.nvramBytes)}
	if !m.stays() {
		in.Absent = filesOf(m.to.server)
	}
	if root, _ := m.to.server.RootDisk(); root.Image != nil {
		in.Project, in.Image = m.server.ProjectID, &m.to.server.Image
	}
	return in
}

// unplaced is why no host was claimed: it may be that the only ones share the storage of the
// vTPM's state with the server's own.
func (m *migration) unplaced(ctx workflow.Context, err error) error {
	if len(m.apart) > 0 && ctx.Err() == nil && durable.FromTemporal(err).Kind == compute.NoHost {
		return compute.Errorf(compute.NoHost, "%s %s", compute.NoValidHost, compute.SharedTPMStorage)
	}
	return err
}

// occupied are the hosts that the server does not go to.
func (m *migration) occupied(ctx workflow.Context) ([]compute.HostID, error) {
	has, err := ledger.Things.Run(ctx, compute.ServerOwner(m.Server))
	if err != nil {
		return nil, err
	}
	return m.from.server.Occupied(has, m.sameHost), nil
}

// checkDisks sees that the disks, and the variables of UEFI, can be copied, and how large they are by now, before
// anything moves. What the guest writes until it is stopped comes on top.
func (m *migration) checkDisks(ctx workflow.Context) error {
	return m.take(ctx, step{event: "check_disks", host: &m.from.host, do: func(ctx workflow.Context) error {
		got, err := disk.CheckMove.On(m.from.host).Run(ctx, disk.CheckMoveInput{Server: m.Server, Disks: m.from.server.Disks, NVRAM: m.from.server.NVRAM()})
		m.bytes, m.nvramBytes = got.Bytes, got.NVRAMBytes
		return err
	}})
}

// fetch sees that the host has the image under the root disk. On the server's own host it is there:
// only the use of an encrypted one is noted.
func (m *migration) fetch(ctx workflow.Context) error {
	root, _ := m.to.server.RootDisk()
	if root.Image == nil || m.stays() && !m.to.server.Image.IsEncrypted() {
		return nil
	}
	cached, err := m.cacheImage(root, m.to.server.Image, m.to.host, m.orFormerHost(orElsewhere))
	if err != nil {
		return err
	}
	return m.take(ctx, cached)
}

// orFormerHost has the host take the image of the one that the server leaves, where the image store
// gives it to nobody who moves the server.
func (m *migration) orFormerHost(how cacheOn) cacheOn {
	return func(ctx workflow.Context, host durable.Host, in disk.CacheImageInput) error {
		if m.stays() {
			return hereOnly(ctx, host, in)
		}
		from, err := placement.HostAgent.Run(ctx, m.from.host.ID)
		if err != nil {
			return err
		}
		in.Former = &disk.FormerHost{Server: m.Server, Operation: m.Operation, Agent: from}
		return how(ctx, host, in)
	}
}

// unlessSilent tries what the host that the server goes to is to take, once the guest is off. Where that host does not answer, the
// move fails and the guest is started again where it was: it does not wait, off, for a host that may never come back.
func (m *migration) unlessSilent(ctx workflow.Context, try func(limit time.Duration) error) error {
	if m.stays() {
		return try(0)
	}
	return whileBusy(ctx, m.to.host, try)
}

// receive copies the old machine's disks, and the state of its vTPM, to the host that the server
// goes to, byte for byte (TPM-16). That these things are intended there is what lets that host have
// them: the step is under way for as long.
func (m *migration) receive(ctx workflow.Context) error {
	if m.stays() {
		return nil
	}
	s := step{event: "receive_disks", host: &m.to.host, task: compute.TaskResizeMigrating, undoLast: true} // the domain runs from them
	kept := slices.DeleteFunc(slices.Clone(m.to.server.Disks), func(d compute.Disk) bool { return m.former(d) == nil })
	for _, d := range kept {
		s.makes = append(s.makes, m.file(m.to.host, d.Name()))
	}
	if file := m.to.server.NVRAM(); file != "" {
		s.makes = append(s.makes, m.file(m.to.host, file))
	}
	if err := m.take(ctx, m.receiving(s, func(ctx workflow.Context, from compute.Agent, limit time.Duration) error {
		if err := m.receiveNVRAM(ctx, from, limit); err != nil {
			return err
		}
		return m.recaching(ctx, []int{0}, m.orFormerHost(cacheWithin(limit)), func() error { return m.receiveDisks(ctx, kept, from, limit) })
	})); err != nil || !m.to.server.SameTPM(m.from.server) || m.from.server.HasNewTPM() || m.sharedTPM {
		return err
	}
	s = step{
		event: "receive_tpm", host: &m.to.host, undoLast: true,
		makes: []compute.Thing{m.onHost(compute.ThingTPMState, m.to.host, m.Server.String())},
	}
	return m.take(ctx, m.receiving(s, func(ctx workflow.Context, from compute.Agent, limit time.Duration) error {
		return tpm.Receive.On(m.to.host).TakenWithin(limit).Do(ctx, tpm.ReceiveInput{Server: m.Server, Operation: m.Operation, Began: m.asked.Began, From: from})
	}))
}

// receiving is a step that asks the old machine's host for something.
func (m *migration) receiving(s step, do func(workflow.Context, compute.Agent, time.Duration) error) step {
	s.do = func(ctx workflow.Context) error {
		from, err := placement.HostAgent.Run(ctx, m.from.host.ID)
		if err != nil {
			return err
		}
		return m.unlessSilent(ctx, func(limit time.Duration) error { return do(ctx, from, limit) })
	}
	return s
}

func (m *migration) receiveDisks(ctx workflow.Context, kept []compute.Disk, from compute.Agent, limit time.Duration) error {
	calls := make([]durable.Future[durable.None], len(kept))
	for i, d := range kept {
		in := disk.ReceiveInput{Server: m.Server, Operation: m.Operation, Project: m.server.ProjectID, Disk: *m.former(d), From: from}
		if d.Role == compute.RootDisk && d.Image != nil { // else it has all of its data in itself
			in.Image = &m.to.server.Image
		}
		calls[i] = disk.Receive.On(m.to.host).TakenWithin(limit).Start(ctx, in)
	}
	_, err := awaitAll(ctx, calls)
	return err
}

// moveDisks makes the new machine's disks of the old one's, as large as they are to be, and those
// that it has more. On another host the copies grow where they are.
func (m *migration) moveDisks(ctx workflow.Context) error {
	s := step{event: "resize_disks", host: &m.to.host, task: compute.TaskResizeMigrated, undoLast: true} // the domain runs from them
	var grow, fresh []int
	for i, d := range m.to.server.Disks {
		switch was := m.former(d); {
		case was == nil:
			fresh = append(fresh, i)
		case m.stays() || was.SizeMB != d.SizeMB:
			grow = append(grow, i)
		}
		if m.stays() || m.former(d) == nil {
			s.makes = append(s.makes, m.file(m.to.host, d.Name()))
		}
	}
	if len(grow)+len(fresh) == 0 {
		return nil
	}
	s.do = func(ctx workflow.Context) error {
		return m.unlessSilent(ctx, func(limit time.Duration) error { return m.resizeDisks(ctx, grow, fresh, limit) })
	}
	if m.stays() { // else they have come with the disks
		s = m.withNVRAM(s, m.from.server.NVRAM(), 0)
	}
	return m.take(ctx, s)
}

func (m *migration) resizeDisks(ctx workflow.Context, grow, fresh []int, limit time.Duration) error {
	calls := make([]durable.Future[durable.None], len(grow))
	for c, i := range grow {
		d := m.to.server.Disks[i]
		calls[c] = disk.Resize.On(m.to.host).TakenWithin(limit).Start(ctx, disk.ResizeInput{
			Credential: m.to.server.Keyring(m.asked.Credential).Disks, Server: m.Server, From: *m.former(d), Disk: d,
		})
	}
	failure := m.createDisks(ctx, fresh, limit)
	if _, err := awaitAll(ctx, calls); err != nil { // an undo may follow: none may be under way
		return err
	}
	return failure
}

// moveTPM sees that the new machine finds the state that its vTPM is to have (TPM-19), where that
// of the old one is.
func (m *migration) moveTPM(ctx workflow.Context) error {
	is, was := m.to.server, m.from.server
	if !m.keepsPlace() || !keepsTPM(was, is, m.boots()) {
		return nil
	}
	if is.SameTPM(was) {
		return m.keepTPM(ctx)
	}
	return m.exchangeTPM(ctx, "")
}

// keepsTPM reports whether a move that leaves the state where it is keeps a copy of the state of the server's vTPM: where
// the guest uses it before it is decided, or another one takes its place.
func keepsTPM(was, is compute.Server, boots bool) bool {
	return was.HasTPMState() && is.TPM != nil && (boots || !was.SameTPM(is))
}

// keepTPM keeps the state of the server's vTPM as the old machine left it, where the new one is
// to run: whoever removes the copy before it is decided that the old machine goes puts it back, once
// the new one is off.
func (s *switchover) keepTPM(ctx workflow.Context) error {
	kept := s.onHost(compute.ThingTPMState, s.to.host, compute.KeptTPM(s.Server, s.Operation))
	kept.Reference = compute.KeptUndecided
	return s.take(ctx, step{
		event: "keep_tpm", host: &s.to.host, undoLast: true, makes: []compute.Thing{kept},
		do: func(ctx workflow.Context) error {
			return tpm.Keep.On(s.to.host).Do(ctx, tpm.KeepInput{Server: s.Server, Kept: kept.Name, New: s.from.server.HasNewTPM() || s.tpmLost})
		},
	})
}

// exchangeTPM puts a copy that was kept in the place of the state of the server's vTPM, which is
// kept, or nothing: then the next boot makes a new one.
func (s *switchover) exchangeTPM(ctx workflow.Context, with string) error {
	if err := s.keepTPM(ctx); err != nil {
		return err
	}
	return s.take(ctx, step{event: "exchange_tpm", host: &s.to.host, do: func(ctx workflow.Context) error {
		return tpm.PutBack.On(s.to.host).Do(ctx, tpm.PutBackInput{Server: s.Server, Operation: s.Operation, Kept: with})
	}})
}

// startMoved boots the new machine, unless the server was off.
func (m *migration) startMoved(ctx workflow.Context) error {
	if !m.boots() {
		m.to.power = compute.PowerShutdown
		return nil
	}
	is, was := m.to.server, m.from.server
	boot := m.to.boot(domain.StartInput{NewTPM: is.TPM != nil && !is.SameTPM(was)})
	boot.task = compute.TaskResizeFinish
	if is.TPM != nil && (was.TPM == nil || !m.keepsPlace() && !is.SameTPM(was)) {
		boot.makes = append(boot.makes, m.onHost(compute.ThingTPMState, m.to.host, m.Server.String()))
	}
	if err := m.take(ctx, boot); err != nil {
		return err
	}
	m.to.server = m.to.server.WithUnbooted(false)
	return nil
}
