package workflows

import (
	"cmp"
	"slices"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/placement"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// LiveMigrate moves a server to another host while its guest runs: its memory, what its disks have,
// and the state of its vTPM (TPM-20). When it fails or is cancelled, the guest runs on where it is.
// At no moment does it run on both.
func LiveMigrate(ctx workflow.Context, in durable.OperationInput) error {
	return onMachineWith(ctx, in, compute.LiveMigrate, func(m *machine, in compute.LiveMigrateArguments) body {
		return &liveMigration{migration: migration{
			switchover: switchover{operation: m.operation, from: m}, kind: record.TypeLiveMigration, only: in.Host,
			plan: func() (compute.Server, error) { return m.server, m.server.CheckMovable() },
		}}
	})
}

// liveMigration is a move of a machine to another host, where it goes on.
type liveMigration struct {
	migration
	begun  bool // the guest may be on its way
	stayed bool // it was seen not to have left; from.power is its power state since
}

func (m *liveMigration) run(ctx workflow.Context) error {
	server, err := m.plan()
	if err != nil {
		return err
	}
	m.to = &machine{operation: m.operation, server: server}
	for _, next := range []func(workflow.Context) error{m.checkKeys, m.checkDisks, m.placeApart, m.fetch, m.makeTargets, m.transfer} {
		if err := next(ctx); err != nil {
			return err
		}
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx) // it runs there, whoever cancels
	m.to.server = m.to.server.WithUnbooted(false)
	ctx, err = passPointOfNoReturn(ctx, m.operation, record.LiveMigrated, func(last *record.Close) record.LiveMigratedInput {
		return record.LiveMigratedInput{OperationInput: m.OperationInput, To: m.to.server, Close: last}
	})
	if err != nil {
		return err
	}
	if err := m.portsAfterCommit(ctx, "bind_ports", m.bindMoved); err != nil { // they come active, though nothing is removed yet
		return err
	}
	if err := m.removeOld(ctx); err != nil {
		return err
	}
	vm, power := compute.Found(m.from.server.VMState, m.to.power)
	return m.commit(ctx, record.SettleInput{VMState: vm, Power: power, Moved: true})
}

// checkKeys sees that the keys can be had on the new host: whoever asks may read those of the disks, and that of the vTPM,
// or else the server's host keeps them and hands them on (TPM-20, EE-30).
func (m *liveMigration) checkKeys(ctx workflow.Context) error {
	parts := m.from.server.OpeningParts()
	if len(parts) == 0 {
		return nil
	}
	return m.take(ctx, step{event: "check_secrets", do: func(ctx workflow.Context) error {
		m.to.kept = nil
		if err := m.tryReading(ctx, m.from.server.OpeningSecrets(), m.to.server); !mayNotRead(err) {
			return err
		}
		for _, p := range parts {
			err := m.tryReading(ctx, p.Secrets, m.to.server)
			if mayNotRead(err) {
				m.to.kept = append(m.to.kept, p.Part)
				err = domain.Keeps.On(m.from.host).Do(ctx, domain.KeepsInput{Server: m.Server, Part: p.Part, Secrets: p.Secrets})
			}
			if err != nil {
				return err
			}
		}
		return nil
	}})
}

// mayNotRead reports whether the key manager refused a key, or has none of that id.
func mayNotRead(err error) bool {
	if err == nil {
		return false
	}
	kind := durable.FromTemporal(err).Kind
	return kind == compute.Forbidden || kind == compute.NotFound
}

// placeApart claims a host that does not share the storage of the vTPM's state with the old one:
// swtpm would use it on both at once (TPM-39).
func (m *liveMigration) placeApart(ctx workflow.Context) (err error) {
	if m.from.server.TPM != nil {
		if m.apart, err = placement.TPMPeers.Run(ctx, m.from.host.ID); err != nil {
			return err
		}
	}
	if err := m.place(ctx); err != nil {
		return err
	}
	return m.findTPM(ctx)
}

// makeTargets makes the disks on the new host, empty but for what they lie on, and the file for the
// variables of its UEFI: QEMU fills them.
func (m *liveMigration) makeTargets(ctx workflow.Context) error {
	s := step{event: "create_disks", host: &m.to.host, undoLast: true} // the domain runs from them
	for _, d := range m.to.server.Disks {
		s.makes = append(s.makes, m.file(m.to.host, d.Name()))
	}
	s.do = func(ctx workflow.Context) error {
		return m.recaching(ctx, []int{0}, m.orFormerHost(orElsewhere), func() error { return m.tryTargets(ctx) })
	}
	return m.take(ctx, m.withNVRAM(s, "", m.nvramBytes))
}

func (m *liveMigration) tryTargets(ctx workflow.Context) error {
	calls := make([]durable.Future[disk.CreateResult], len(m.to.server.Disks))
	for i, d := range m.to.server.Disks {
		in := disk.CreateInput{Credential: m.to.ring().OfDisk(d), Server: m.Server, Disk: d, Image: m.to.server.SourceOf(d), Elsewhere: true}
		if in.Image != nil {
			in.Project = m.server.ProjectID
		}
		in.Whole = in.Image == nil
		calls[i] = disk.Create.On(m.to.host).Start(ctx, in)
	}
	_, err := awaitAll(ctx, calls)
	return err
}

// transfer moves the guest. The new host's libvirt has the secrets while its QEMU is started, and
// that a domain of the server may run there is on the ledger for as long as it is not decided
// where it runs.
func (m *liveMigration) transfer(ctx workflow.Context) error {
	s := m.to.boot(domain.StartInput{})
	s.event, s.task = "live_migrate", compute.TaskMigrating
	if m.to.server.TPM != nil {
		s.makes = append(s.makes, m.onHost(compute.ThingTPMState, m.to.host, m.Server.String()))
	}
	s.do = func(ctx workflow.Context) error {
		if err := m.to.makeConfigDrive(ctx); err != nil {
			return err
		}
		to, err := placement.HostAgent.Run(ctx, m.to.host.ID)
		if err == nil {
			err = m.expect(ctx)
		}
		if err != nil {
			return err
		}
		m.begun = true
		_, failure := domain.Migrate.On(m.from.host).Once().TakenWithin(durable.BusyHost).
			Run(ctx, domain.MigrateInput{Server: m.Server, Operation: m.Operation, To: to})
		return m.decide(ctx, failure)
	}
	return m.take(ctx, s)
}

// expect has the new host expect the server. Images that may have changed are checked first.
func (m *liveMigration) expect(ctx workflow.Context) error {
	in := domain.ExpectInput{
		Server: m.to.server, Keys: m.to.ring(), Operation: m.Operation, Began: m.asked.Began, From: m.from.host.ID,
	}
	for range mostChecked {
		got, err := domain.Expect.On(m.to.host).Run(ctx, in)
		if err != nil || len(got.Unchecked) == 0 {
			return err
		}
		for _, d := range m.to.server.Disks {
			img := m.to.server.SourceOf(d)
			if img == nil || !slices.Contains(got.Unchecked, d.ID) {
				continue
			}
			if err := disk.CheckImage.On(m.to.host).Do(ctx, disk.CheckImageInput{Project: m.server.ProjectID, Image: *img}); err != nil {
				return err
			}
		}
	}
	return compute.Errorf(compute.Corrupt, "server %s: the host's copy of an image changes again and again", m.Server)
}

// decide finds out where the guest is, once nothing is under way: a failure may have left that
// open. nil: it is on the new host. A cancel does not keep it from that. While
// a host does not answer that may have the guest, the server waits for it, until that is cancelled,
// or the host is forced down. Its new host does not run the guest then, should it come back; with its
// old one the server can be evacuated.
func (m *liveMigration) decide(ctx workflow.Context, failure error) error {
	if failure != nil {
		left, err := m.departed(ctx, false)
		if err == nil && left.Departure == domain.Stayed {
			m.remains(left)
			return failure
		}
	}
	there, missing, err := m.arrived(ctx)
	if err != nil {
		return err
	}
	if there.Arrived {
		m.to.power = there.PowerState
		return nil
	}
	if err := m.untilAnswered(ctx, func(ctx workflow.Context) error {
		left, err := m.departed(ctx, true)
		switch {
		case err == nil:
			m.remains(left)
		case m.isDown(ctx, "await_departure", m.from.host):
			missing = err
			return nil
		}
		return err
	}); err != nil {
		return err
	}
	return cmp.Or(failure, missing)
}

// arrived asks the new host for the guest. Without it, missing says why it is not there. A host that is
// silent and forced down counts as one without it: that it may be there is its operator's to exclude, and
// the host stops it, should it come back.
func (m *liveMigration) arrived(ctx workflow.Context) (there domain.ArrivedResult, missing, err error) {
	missing = compute.Errorf(compute.NoHost, "the guest of server %s went off as soon as it had moved", m.Server)
	err = m.untilAnswered(ctx, func(ctx workflow.Context) (err error) {
		there, err = domain.Arrived.On(m.to.host).Run(ctx, domain.ArrivedInput{Server: m.to.server, Keys: m.to.ring()})
		if err == nil || !m.isDown(ctx, "await_arrival", m.to.host) {
			return err
		}
		in := record.NoteFencedInput{OperationInput: m.OperationInput, Host: m.to.host.ID}
		if fenced := record.NoteFenced.Do(ctx, in); fenced != nil { // not yet: it has reported itself lately
			return err
		}
		there = domain.ArrivedResult{}
		missing = compute.Errorf(compute.NoHost, "server %s: its new host was forced down before it said whether the guest had come", m.Server)
		return nil
	})
	return there, missing, err
}

// remains notes that the guest did not leave.
func (m *liveMigration) remains(left domain.DepartedResult) {
	m.stayed, m.from.power = true, left.PowerState
}

// departed asks the old host for the domain. It is asked also when the operation was cancelled.
func (m *liveMigration) departed(ctx workflow.Context, resume bool) (domain.DepartedResult, error) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	return domain.Departed.On(m.from.host).Run(durable.WithUndo(ctx), domain.DepartedInput{Server: m.Server, Resume: resume})
}

// isDown reports whether a host is forced down: its operator's word that nothing runs there. event is what
// the trail says meanwhile.
func (m *liveMigration) isDown(ctx workflow.Context, event string, host durable.Host) bool {
	s := step{event: event, host: &host}
	got, err := record.Advance.Run(ctx, record.AdvanceInput{OperationInput: m.OperationInput, Unfenced: true, Open: s.opening(nil)})
	return err == nil && got.HostDown
}

// untilAnswered asks until there is an answer; once the operation is cancelled, one last time.
func (m *liveMigration) untilAnswered(ctx workflow.Context, ask func(workflow.Context) error) error {
	for {
		last := ctx.Err() != nil
		aside, _ := workflow.NewDisconnectedContext(ctx)
		err := ask(durable.WithUndo(aside))
		if err == nil || last {
			return err
		}
		_ = workflow.Sleep(ctx, maxRestartWait) // a cancel ends it
	}
}

// outcome leaves the server as it was, or as its guest is by now. Where nobody knows on which host
// it is, nothing is started on either: it is in ERROR, halted where it was.
func (m *liveMigration) outcome(ctx workflow.Context, err *compute.Error) record.SettleInput {
	switch {
	case !m.begun:
		return m.unchanged()
	case !m.stayed:
		return record.SettleInput{VMState: compute.VMError, Fault: faultOf(ctx, err), Power: compute.PowerPaused}
	}
	vm, power := compute.Found(m.from.server.VMState, m.from.power)
	return record.SettleInput{VMState: vm, Power: power}
}
