package domain

import (
	"context"
	"os/exec"
	"slices"
	"strings"

	libvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/sys/unix"
	"libvirt.org/go/libvirtxml"

	"strongroom/compute"
)

// Description is what a host can tell of itself.
type Description struct {
	Hostname          string            `json:"hostname"`
	HypervisorType    string            `json:"hypervisor_type"`    // QEMU
	HypervisorVersion int               `json:"hypervisor_version"` // 7002011 is 7.2.11
	CPU               CPU               `json:"cpu_info"`
	Capacity          compute.Resources `json:"capacity"` // of the hardware: no overcommit
	DiskFreeGB        int               `json:"disk_free_gb"`
	GroupMB           *int64            `json:"group_mb"` // what the volume group has for servers; nil: none of their disks can be there
	Running           int               `json:"running_vms"`
	Traits            []string          `json:"traits"`    // sorted
	NoTPM             string            `json:"no_tpm"`    // why servers can have no vTPM here; "": they can
	NoShares          string            `json:"no_shares"` // why they can have no shares here; "": they can
	Networks          []string          `json:"networks"`  // uuids, sorted
}

// CPU is the host's processor, in the form of the API's cpu_info.
type CPU struct {
	Arch     string   `json:"arch"`
	Model    string   `json:"model"`
	Vendor   string   `json:"vendor"`
	Features []string `json:"features"`
	Topology Topology `json:"topology"`
}

// Topology counts what each next has of the one before.
type Topology struct {
	Cells   int `json:"cells"`
	Sockets int `json:"sockets"`
	Cores   int `json:"cores"`
	Threads int `json:"threads"`
}

// Describe looks at the host. swtpm says whether servers may have a vTPM here
// (TPM-01). Traits are only those that the host can really serve.
func (a *Activities) Describe(ctx context.Context, swtpm bool) (Description, error) {
	var got Description
	var machine libvirtxml.DomainCaps
	var library uint64
	err := a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		var err error
		if got.Hostname, err = l.ConnectGetHostname(); err != nil {
			return err
		}
		if got.HypervisorType, err = l.ConnectGetType(); err != nil {
			return err
		}
		version, err := l.ConnectGetVersion()
		if err != nil {
			return err
		}
		got.HypervisorVersion = int(version)
		if library, err = l.ConnectGetLibVersion(); err != nil {
			return err
		}
		_, memoryKiB, cpus, _, cells, _, _, _, err := l.NodeGetInfo()
		if err != nil {
			return err
		}
		got.Capacity.VCPUs, got.Capacity.MemoryMB = int(cpus), int(memoryKiB>>10)
		var caps libvirtxml.Caps
		if caps, err = capabilities(l); err != nil {
			return err
		}
		got.CPU, got.Traits = cpuOf(caps), compute.MachineTraits(machineTypes(caps))
		got.CPU.Topology.Cells = int(cells)
		running, _, err := l.ConnectListAllDomains(1, libvirt.ConnectListDomainsActive)
		if err != nil {
			return err
		}
		got.Running = len(serverDomains(running))
		if got.Networks, err = networks(l, a.Networks); err != nil {
			return err
		}
		doc, err := l.ConnectGetDomainCapabilities(nil, libvirt.OptString{"x86_64"}, libvirt.OptString{a.Machine}, libvirt.OptString{a.VirtType}, 0)
		if err != nil {
			return err
		}
		return machine.Unmarshal(doc)
	})
	if err != nil {
		return Description{}, err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(a.InstancesDir, &fs); err != nil {
		return Description{}, compute.Errorf(compute.Unavailable, "file system of the servers: %w", err)
	}
	got.Capacity.DiskGB = int(int64(fs.Blocks) * fs.Bsize >> 30)
	got.DiskFreeGB = int(int64(fs.Bavail) * fs.Bsize >> 30)
	a.describePool(ctx, &got)
	encryption, err := a.EncryptionTraits(ctx)
	if err != nil {
		return Description{}, err
	}
	got.Traits = append(got.Traits, encryption...)
	if got.GroupMB, err = a.Devices.DeviceRoomMB(ctx); err != nil {
		return Description{}, err
	}
	if got.NoShares = a.noShares(machine, library, uint64(got.HypervisorVersion)); got.NoShares == "" {
		got.Traits = append(got.Traits, compute.TraitVirtioFS, compute.TraitMemoryFile)
		if a.sharesLive(ctx) {
			got.Traits = append(got.Traits, compute.TraitLiveShares)
		}
	}
	got.Traits = append(got.Traits, compute.TraitHardware)
	got.Traits = append(got.Traits, pageTraits("/")...)
	got.Traits = append(got.Traits, a.uefiTraits(machine)...)
	got.NoTPM = "host.swtpm_enabled is false"
	if swtpm {
		if got.NoTPM = tooOldForTPM(library, uint64(got.HypervisorVersion)); got.NoTPM == "" {
			var traits []string
			traits, got.NoTPM = tpmTraits(machine)
			got.Traits = append(got.Traits, traits...)
		}
	}
	slices.Sort(got.Traits)
	return got, nil
}

func capabilities(l *libvirt.Libvirt) (caps libvirtxml.Caps, err error) {
	doc, err := l.ConnectGetCapabilities()
	if err != nil {
		return caps, err
	}
	return caps, caps.Unmarshal(doc)
}

// machineTypes are those that QEMU has for guests, by their names and what these stand for.
func machineTypes(caps libvirtxml.Caps) (names []string) {
	for _, g := range caps.Guests {
		if g.OSType != "hvm" || g.Arch.Name != "x86_64" {
			continue
		}
		for _, m := range g.Arch.Machines {
			names = append(names, m.Name, m.Canonical)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func cpuOf(caps libvirtxml.Caps) CPU {
	c := caps.Host.CPU
	if c == nil {
		return CPU{}
	}
	got := CPU{Arch: c.Arch, Model: c.Model, Vendor: c.Vendor, Features: []string{}}
	for _, f := range c.FeatureFlags {
		got.Features = append(got.Features, f.Name)
	}
	if t := c.Topology; t != nil {
		got.Topology = Topology{Sockets: t.Sockets, Cores: t.Cores, Threads: t.Threads}
	}
	return got
}

// swtpmPrograms are all needed: libvirt starts a guest's swtpm with swtpm_setup
// and speaks to it with swtpm_ioctl.
var swtpmPrograms = []string{"swtpm", "swtpm_setup", "swtpm_ioctl"}

// tpmTraits gives the traits of the TPMs that QEMU and swtpm can make here, or why they
// can make none.
func tpmTraits(machine libvirtxml.DomainCaps) (traits []string, why string) {
	for _, p := range swtpmPrograms {
		if _, err := exec.LookPath(p); err != nil {
			return nil, p + " is not installed"
		}
	}
	if machine.Devices == nil || machine.Devices.TPM == nil || machine.Devices.TPM.Supported != "yes" {
		return nil, "QEMU has no TPM devices for this machine type"
	}
	can := map[string][]string{}
	for _, e := range machine.Devices.TPM.Enums {
		can[e.Name] = e.Values
	}
	if !slices.Contains(can["backendModel"], "emulator") {
		return nil, "QEMU cannot use swtpm (package swtpm, TPM back end emulator)"
	}
	traits = []string{compute.TraitTPMUser, compute.TraitTPMHost, compute.TraitTPMDeployment}
	for _, t := range []struct{ enum, value, trait string }{
		{"model", string(compute.TPMTIS), compute.TraitTPMTIS},
		{"model", string(compute.TPMCRB), compute.TraitTPMCRB},
		{"backendVersion", string(compute.TPM12), compute.TraitTPM12},
		{"backendVersion", string(compute.TPM20), compute.TraitTPM20},
	} {
		if slices.Contains(can[t.enum], t.value) {
			traits = append(traits, t.trait)
		}
	}
	return traits, ""
}

// deviceTraits are those of formats that the host's kernel decrypts.
var deviceTraits = map[compute.DiskFormat]string{
	compute.FormatLUKSv2: compute.TraitEncryptionLUKSv2, compute.FormatPlain: compute.TraitEncryptionPlain,
}

// EncryptionTraits gives those of the formats in which disks can really be made here
// (EE-05): luks by qemu-img, the others by the host itself.
func (a *Activities) EncryptionTraits(ctx context.Context) ([]string, error) {
	traits, err := luksTraits(ctx)
	if err != nil {
		return nil, err
	}
	formats, err := a.Devices.DeviceFormats(ctx)
	for _, f := range formats {
		traits = append(traits, deviceTraits[f])
	}
	if len(formats) > 0 && !slices.Contains(traits, compute.TraitEncryption) {
		traits = append(traits, compute.TraitEncryption)
	}
	return traits, err
}

// luksTraits asks qemu-img whether it can make LUKS disks.
func luksTraits(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "qemu-img", "--help").Output()
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "qemu-img: %w", err)
	}
	_, formats, _ := strings.Cut(string(out), "Supported formats:")
	if !slices.Contains(strings.Fields(formats), "luks") {
		return nil, nil
	}
	return []string{compute.TraitEncryption, compute.TraitEncryptionLUKS}, nil
}
