package workflows

import (
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
}

// boot is the step that runs the machine's domain. Libvirt has the secrets for as
// long as that takes, and they are on the ledger for that time. So is that the domain
// runs: an undo stops it, and where its host does not answer, the janitor does before
// anything that the domain runs from is removed.
func (m *machine) boot(in domain.StartInput) step {
	in.Server, in.Keys, in.Operation = m.server, m.server.Keyring(m.asked.Credential), m.Operation
	s := step{event: "start_domain", host: &m.host}
	s.borrows = append(s.borrows, m.onHost(compute.ThingRunningDomain, m.host, m.server.InstanceName()))
	for _, id := range m.server.Secrets() {
		s.borrows = append(s.borrows, m.onHost(compute.ThingHypervisorSecret, m.host, id.String()))
	}
	s.do = func(ctx workflow.Context) error {
		if err := m.makeConfigDrive(ctx); err != nil {
			return err
		}
		got, err := domain.Start.On(m.host).Run(ctx, in)
		m.power = got.PowerState
		return err
	}
	return s
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
	in := disk.ConfigDriveInput{Server: m.server, Credential: m.server.Keyring(m.asked.Credential).Disks}
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
func (m *machine) createDisk(ctx workflow.Context, d compute.Disk) durable.Future[disk.CreateResult] {
	in := disk.CreateInput{Credential: m.server.Keyring(m.asked.Credential).OfDisk(d), Server: m.Server, Disk: d}
	switch {
	case d.Source != nil:
		in.Project, in.Image = m.server.ProjectID, d.Source
	case d.Role == compute.RootDisk:
		in.Project, in.Image = m.server.ProjectID, &m.server.Image
	}
	if in.Image != nil {
		in.ImageCredential = m.asked.Credential
	}
	create := disk.Create
	if d.OnDevice() && in.Image != nil { // all of the image is copied
		create = disk.CreateCopy
	}
	return create.On(m.host).Start(ctx, in)
}

// noteOptions notes in the plan how a disk was really encrypted (EE-08), and gives it for the record.
func (m *machine) noteOptions(i int, options map[string]string) (record.Option, bool) {
	d := &m.server.Disks[i]
	if !d.Encrypted {
		return record.Option{}, false
	}
	d.EncryptionOptions = options
	return record.Option{Disk: d.ID, Format: d.Format, Options: options}, true
}
