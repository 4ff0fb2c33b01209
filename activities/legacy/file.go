package legacy

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"

	"strongroom/compute"
)

// Description is a server of an import's file (docs/legacy.md), which says no more than Nova's database.
type Description struct {
	ID        uuid.UUID  `yaml:"id"`
	Host      string     `yaml:"host"` // name or uuid
	ProjectID string     `yaml:"project_id"`
	UserID    string     `yaml:"user_id"`
	Name      string     `yaml:"name"`
	Hostname  string     `yaml:"hostname"` // default: name
	Key       uuid.UUID  `yaml:"key"`      // instances.ephemeral_key_uuid
	Flavor    flavor     `yaml:"flavor"`
	Image     image      `yaml:"image"`
	Networks  []network  `yaml:"networks"`
	How       encryption `yaml:"encryption"` // of all disks; default legacy.cipher, key_size and hash
	Disks     []disk     `yaml:"disks"`      // what is not as the flavor says
}

type flavor struct {
	ID          string            `yaml:"id"` // default: name
	Name        string            `yaml:"name"`
	VCPUs       int               `yaml:"vcpus"`
	MemoryMB    int               `yaml:"memory_mb"`
	RootGB      int               `yaml:"root_gb"`
	EphemeralGB int               `yaml:"ephemeral_gb"`
	SwapMB      int               `yaml:"swap_mb"`
	ExtraSpecs  map[string]string `yaml:"extra_specs"`
}

type image struct {
	ID         uuid.UUID         `yaml:"id"`
	Properties map[string]string `yaml:"properties"`
}

type network struct {
	UUID uuid.UUID `yaml:"uuid"`
	MAC  string    `yaml:"mac"`
}

// encryption is what Nova's host had in [ephemeral_storage_encryption], and the hash that its
// cryptsetup had by default.
type encryption struct {
	Cipher  string `yaml:"cipher"`
	KeySize int    `yaml:"key_size"`
	Hash    string `yaml:"hash"`
}

func (e encryption) or(other encryption) encryption {
	return encryption{cmp.Or(e.Cipher, other.Cipher), cmp.Or(e.KeySize, other.KeySize), cmp.Or(e.Hash, other.Hash)}
}

type disk struct {
	Role   compute.DiskRole `yaml:"role"`
	SizeMB int64            `yaml:"size_mb"`
	Volume string           `yaml:"volume"` // what follows SERVER_ in its name; default disk, disk.eph0, disk.swap
	How    encryption       `yaml:"encryption"`
}

// volumeName is what Nova calls the disks of a server.
var volumeName = regexp.MustCompile(`^disk(\.[a-z0-9]+)?$`)

// ReadFile reads an import's file, YAML or JSON. Invalid: it says something that is not
// known, or not what is needed.
func ReadFile(from io.Reader) ([]Description, error) {
	var doc struct {
		Servers []Description `yaml:"servers"`
	}
	decoder := yaml.NewDecoder(from)
	decoder.KnownFields(true)
	if err := decoder.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, compute.Errorf(compute.Invalid, "the file cannot be read: %w", err)
	}
	if len(doc.Servers) == 0 {
		return nil, compute.Errorf(compute.Invalid, "the file names no servers")
	}
	for i, d := range doc.Servers {
		if slices.ContainsFunc(doc.Servers[:i], func(o Description) bool { return o.ID == d.ID || o.Key == d.Key }) {
			return nil, compute.Errorf(compute.Invalid, "server %s, or its key, is in the file twice", d.ID)
		}
	}
	return doc.Servers, nil
}

// Server gives the server that is described, on a host. Invalid: it makes no sense, or
// something is missing.
func (d Description) Server(host compute.HostID, byDefault compute.DMCrypt) (Imported, error) {
	out := Imported{Key: compute.SecretID{UUID: d.Key}, Server: compute.Server{
		ID: compute.ServerID{UUID: d.ID}, ProjectID: d.ProjectID, UserID: d.UserID, Name: d.Name, Hostname: cmp.Or(d.Hostname, d.Name),
		Host: &host, Image: compute.Image{ID: compute.ImageID{UUID: d.Image.ID}, Properties: d.Image.Properties},
		Flavor: compute.Flavor{
			ID: cmp.Or(d.Flavor.ID, d.Flavor.Name), Name: d.Flavor.Name, VCPUs: d.Flavor.VCPUs, MemoryMB: d.Flavor.MemoryMB,
			RootGB: d.Flavor.RootGB, EphemeralGB: d.Flavor.EphemeralGB, SwapMB: d.Flavor.SwapMB, ExtraSpecs: d.Flavor.ExtraSpecs,
		},
		Traits: []string{compute.TraitEncryption, compute.TraitEncryptionPlain}, Networks: []compute.Network{},
	}}
	for _, need := range []struct {
		name    string
		missing bool
	}{
		{"id", d.ID == uuid.Nil}, {"key", d.Key == uuid.Nil}, {"project_id", d.ProjectID == ""}, {"user_id", d.UserID == ""}, {"name", d.Name == ""},
		{"flavor.name", d.Flavor.Name == ""}, {"flavor.vcpus", d.Flavor.VCPUs < 1}, {"flavor.memory_mb", d.Flavor.MemoryMB < 1},
	} {
		if need.missing {
			return out, compute.Errorf(compute.Invalid, "server %s: %s is missing", d.ID, need.name)
		}
	}
	err := errors.Join(d.plug(&out), d.plan(&out, byDefault))
	if err == nil {
		_, err = compute.DiskSecurity(out.Flavor)
	}
	if firmware, unread := compute.FirmwareOf(out.Flavor, out.Image); err == nil && (unread != nil || firmware.UEFI) {
		err = cmp.Or(unread, errors.New("it begins with UEFI, and an import does not take over its variables"))
	}
	if err != nil {
		return out, compute.Errorf(compute.Invalid, "server %s: %w", d.ID, err)
	}
	return out, nil
}

// plug gives the server its interfaces: the guest knows them by their addresses.
func (d Description) plug(out *Imported) error {
	for _, n := range d.Networks {
		mac, err := net.ParseMAC(n.MAC)
		if err != nil || len(mac) != 6 || n.UUID == uuid.Nil {
			return fmt.Errorf("a network has a uuid and a mac, not %q and %q", n.UUID, n.MAC)
		}
		out.Networks = append(out.Networks, compute.Network{UUID: n.UUID.String(), MAC: mac.String()})
	}
	return nil
}

// plan gives the server the disks that its flavor says, changed as the file says.
func (d Description) plan(out *Imported, byDefault compute.DMCrypt) error {
	left := slices.Clone(d.Disks)
	all := encryption(byDefault)
	out.Disks = compute.PlanDisks("", out.Flavor, out.Image, compute.Encryption{})
	for i := range out.Disks {
		to := &out.Disks[i]
		to.ID, to.Image = compute.DiskID{UUID: uuid.NewSHA1(d.ID, []byte("legacy disk "+to.Label()))}, nil
		how := d.How
		if at := slices.IndexFunc(left, func(o disk) bool { return o.Role == to.Role }); at >= 0 {
			to.SizeMB = cmp.Or(left[at].SizeMB, to.SizeMB)
			if volume := left[at].Volume; volume != to.Name() {
				to.File = volume
			}
			how = left[at].How.or(how)
			left = slices.Delete(left, at, at+1)
		}
		if to.SizeMB <= 0 {
			return fmt.Errorf("the %s disk has no size: its flavor has none, so disks must say its size_mb", to.Role)
		}
		if !volumeName.MatchString(to.Name()) {
			return fmt.Errorf("%q is no name of a volume of a disk: it begins with disk", to.File)
		}
		options, err := compute.DMCrypt(how.or(all)).Options()
		if err != nil {
			return err
		}
		to.EncryptionOptions = options
	}
	if len(left) > 0 {
		return fmt.Errorf("its flavor has no such disk: %s", left[0].Role)
	}
	return nil
}
