package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// machine is a server on one host: its disks, TPM and secrets there, and how it is booted
// and shut down. server is as planned: what a rebuild changes is not on record yet.
type machine struct {
	*operation
	server compute.Server
	host   durable.Host
	power  compute.PowerState // as it was seen last
	shares shareMounts
	kept   []compute.KeyPart // of its keys, which the host keeps that it comes from, and hands on
	// onShared: its folder is on storage that its host shares with the old machine's. hasFiles: the files of a boot are there, and the
	// old machine's until it is decided.
	onShared, hasFiles bool
}

// ring are the credentials for the machine's keys.
func (m *machine) ring() compute.Keyring {
	ring := m.server.Keyring(m.asked.Credential)
	for _, part := range m.kept {
		ring = ring.WithKept(part)
	}
	return ring
}

// boot is the step that runs the machine's domain. Libvirt has the secrets for as
// long as that takes, and they are on the ledger for that time. So is that the domain
// runs: an undo stops it, and where its host does not answer, the janitor does before
// anything that the domain runs from is removed.
func (m *machine) boot(in domain.StartInput) step {
	in.Server, in.Keys, in.Operation = m.server, m.ring(), m.Operation
	in.Began = m.asked.Began
	s := step{event: "start_domain", host: &m.host}
	s.borrows = append(s.borrows, m.onHost(compute.ThingRunningDomain, m.host, m.server.InstanceName()))
	s.borrows = append(s.borrows, m.lentSecrets()...)
	if m.server.Unbooted() {
		s.makes = append(s.makes, m.firstBoot(m)...)
	}
	if m.server.HasNewTPM() {
		in.NewTPM = true
		s.makes = append(s.makes, m.onHost(compute.ThingTPMState, m.host, m.Server.String()))
	}
	for _, share := range m.server.Shares {
		s.makes = append(s.makes, m.mountOf(share))
		if share.Status == compute.ShareError && share.HasRule() { // its host may have no access
			s.makes = append(s.makes, m.accessTo(share.Share))
		}
	}
	s.do = func(ctx workflow.Context) error {
		if err := m.mountShares(ctx); err != nil {
			return err
		}
		if err := m.makeConfigDrive(ctx); err != nil {
			return err
		}
		return m.start(ctx, in)
	}
	return s
}

// lentSecrets are the secrets that libvirt has while the machine's domain is started.
func (m *machine) lentSecrets() (lent []compute.Thing) {
	for _, id := range m.server.OpeningSecrets() {
		lent = append(lent, m.onHost(compute.ThingHypervisorSecret, m.host, id.String()))
	}
	return lent
}

// mostChecked is how often images are checked that have changed again when the domain is to
// be started: disks lie on them, so nothing should write to them.
const mostChecked = 3

// start starts the domain. Images that may have changed are checked first, in slots for long
// work: starts of other servers wait for none of that (M5).
func (m *machine) start(ctx workflow.Context, in domain.StartInput) error {
	for range mostChecked {
		got, err := domain.Start.On(m.host).Run(ctx, in)
		m.power = got.PowerState
		m.guestRan = m.guestRan || mayHaveRun(got, err)
		if err != nil || len(got.Unchecked) == 0 {
			return err
		}
		for _, d := range m.server.Disks {
			img := m.server.SourceOf(d)
			if img == nil || !slices.Contains(got.Unchecked, d.ID) {
				continue
			}
			if err := m.checkImage(ctx, disk.CheckImageInput{Project: m.server.ProjectID, Image: *img}); err != nil {
				return err
			}
		}
	}
	return compute.Errorf(compute.Corrupt, "server %s: the host's copy of an image changes again and again", m.Server)
}

// mayHaveRun reports whether a start may have started the guest: it did, or it was cut off before it could say.
func mayHaveRun(got domain.PowerResult, err error) bool {
	if err == nil {
		return len(got.Unchecked) == 0
	}
	return temporal.IsCanceledError(err) || durable.IsTimeout(err)
}

// checkImage checks an image under a disk. A host whose slots for long work are all taken is not
// silent to an undo (H6), which is Unavailable after some minutes of that: who restarts a guest
// tries again, unless a delete waits for the server meanwhile (H9).
func (m *machine) checkImage(ctx workflow.Context, in disk.CheckImageInput) error {
	return m.longWork(ctx, func(limit time.Duration) error {
		return disk.CheckImage.On(m.host).TakenWithin(limit).Do(ctx, in)
	}, compute.Errorf(compute.Unavailable, "image %s: the host had no time to check its copy", in.Image.ID))
}

// longWork tries what takes a slot for long work of the machine's host, within a limit in an undo. late is for an undo whose host
// answers and had no time.
func (m *machine) longWork(ctx workflow.Context, try func(limit time.Duration) error, late error) error {
	if !durable.IsUndo(ctx) {
		return try(0)
	}
	busy, err := whileBusyFor(ctx, m.host, durable.HostSilence, try)
	if busy || durable.IsTimeout(err) && !durable.IsHostAway(err) {
		return late
	}
	return err
}

// makeConfigDrive writes the server's config drive anew, if it has one: with its present
// metadata, encrypted with its root disk's present passphrase. The file is on the ledger
// since the server's first boot on its host.
func (m *machine) makeConfigDrive(ctx workflow.Context) error {
	if !m.server.ConfigDrive {
		return nil
	}
	return disk.CreateConfigDrive.On(m.host).Do(ctx, m.configDrive())
}

func (m *machine) configDrive() disk.ConfigDriveInput {
	in := disk.ConfigDriveInput{Server: m.server, Credential: m.ring().Disks, Began: m.asked.Began}
	onRecord, _ := m.asked.Server.RootDisk()
	if root, _ := m.server.RootDisk(); root.ID != onRecord.ID {
		in.Ahead = &m.Operation
	}
	return in
}

// shutdown is the step that stops the machine's domain.
func (m *machine) shutdown(grace int) step {
	return step{event: "stop_domain", host: &m.host, do: func(ctx workflow.Context) error {
		return domain.Stop.On(m.host).Do(ctx, domain.StopInput{Server: m.Server, GraceSeconds: grace})
	}}
}

// createDisk starts to make one of the machine's disks.
func (m *machine) createDisk(ctx workflow.Context, d compute.Disk, limit time.Duration) durable.Future[disk.CreateResult] {
	in := disk.CreateInput{Credential: m.ring().OfDisk(d), Server: m.Server, Disk: d, Image: m.imageOf(d), Elsewhere: m.server.Unbooted()}
	if in.Image != nil {
		in.Project = m.server.ProjectID
	}
	create := disk.Create
	if d.OnDevice() && in.Image != nil { // all of the image is copied
		create = disk.CreateCopy
	}
	return create.On(m.host).TakenWithin(limit).Start(ctx, in)
}

// imageOf gives the image that a disk is made of; nil for an empty one.
func (m *machine) imageOf(d compute.Disk) *compute.Image {
	switch {
	case d.Source != nil:
		return d.Source
	case d.Role == compute.RootDisk:
		return &m.server.Image
	}
	return nil
}

// noteOptions notes in the plan how a disk was really encrypted (EE-08) and where its data are, and gives it for the record.
func (m *machine) noteOptions(i int, made disk.CreateResult) (record.Option, bool) {
	d := &m.server.Disks[i]
	if !d.Encrypted {
		return record.Option{}, false
	}
	d.EncryptionOptions, d.Whole = made.EncryptionOptions, made.Whole
	return record.Option{Disk: d.ID, Format: d.Format, Options: d.EncryptionOptions, Whole: d.Whole}, true
}

// exportOf asks for a copy of one of the machine's disks while it is off.
func (m *machine) exportOf(d compute.Disk, target compute.ExportTarget) disk.ExportInput {
	in := disk.ExportInput{
		Credential: m.keys().Disks, Server: m.Server, Operation: m.Operation, Project: m.server.ProjectID, Disk: d, Target: target,
	}
	if d.Role == compute.RootDisk && d.Image != nil { // else it has all of its data in itself
		in.Image = &m.server.Image
	}
	return in
}
