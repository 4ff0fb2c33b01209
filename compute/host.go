package compute

import (
	"cmp"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Host is a compute host as it last reported itself, with what is claimed on it.
type Host struct {
	ID       HostID   `json:"id"`
	Name     string   `json:"name"`
	Zone     string   `json:"zone"` // its availability zone
	Traits   []string `json:"traits"`
	Networks []string `json:"networks,omitempty"` // uuids of networks it can attach
	// Private are the projects that networks are limited to; one that is not named is everybody's.
	Private    map[string][]string `json:"private_networks,omitempty"`
	Capacity   Resources           `json:"capacity"` // after overcommit
	Used       Resources           `json:"used"`     // claimed
	Servers    int                 `json:"servers"`
	Disabled   bool                `json:"disabled"`
	LastSeen   time.Time           `json:"last_seen"`
	ForcedDown bool                `json:"forced_down"`
	Revoked    bool                `json:"revoked,omitempty"`     // an operator revoked all of its certificates
	TPMStorage string              `json:"tpm_storage,omitempty"` // the id of the storage with the states of vTPMs; "": not known
	// DiskStorage is the id of the storage with servers' folders; "": not known.
	DiskStorage string `json:"disk_storage,omitempty"`
	Groups      bool   `json:"groups,omitempty"` // it says what its volume group has: Capacity.GroupMB
	// Aggregates is what the metadata of its aggregates say.
	Aggregates AggregateMetadata `json:"aggregates,omitempty"`
	// Default is the format of disks for which nobody asks for one, as the host says;
	// FormatNone: it says nothing.
	Default DiskFormat `json:"default_format,omitempty"`
}

// The most that a host may say of networks: as many as there are VLANs, and as many projects of each.
const (
	MostHostNetworks    = 4096
	MostNetworkProjects = 4096
)

// CheckNetworks refuses, with Invalid, what no host has to say of the networks that it can attach and of the
// projects that they are limited to: all of the cloud hear it (PrivateNetworks, H8).
func CheckNetworks(networks []string, private map[string][]string) error {
	if len(networks) > MostHostNetworks || len(private) > MostHostNetworks {
		return Errorf(Invalid, "%d networks, %d of them limited to projects: a host has at most %d", len(networks), len(private), MostHostNetworks)
	}
	for _, id := range slices.AppendSeq(slices.Clone(networks), maps.Keys(private)) {
		if uuid.Validate(id) != nil {
			return Errorf(Invalid, "network %.64q: it is no uuid", id)
		}
	}
	for id, projects := range private {
		if len(projects) > MostNetworkProjects {
			return Errorf(Invalid, "network %s is limited to %d projects: at most %d", id, len(projects), MostNetworkProjects)
		}
		for _, project := range projects {
			if !projectID.MatchString(project) {
				return Errorf(Invalid, "network %s is limited to project %.64q: it is no project's id", id, project)
			}
		}
	}
	return nil
}

// The most that a host may say of itself beside: its row is read whole by each create, move and start (H1).
const (
	MostHostText    = 255      // characters
	MostHostTraits  = 1024     // of MostHostText each
	MostHostCPUInfo = 64 << 10 // bytes
)

// CheckTexts refuses, with Invalid, texts of a host that are longer than any host's.
func CheckTexts(texts, traits []string, cpuInfo []byte) error {
	if len(traits) > MostHostTraits || len(cpuInfo) > MostHostCPUInfo {
		return Errorf(Invalid, "%d traits and %d bytes of cpu_info: a host has at most %d and %d", len(traits), len(cpuInfo), MostHostTraits, MostHostCPUInfo)
	}
	for _, text := range slices.Concat(texts, traits) {
		if utf8.RuneCountInString(text) > MostHostText {
			return Errorf(Invalid, "%.64q…: a host says at most %d characters", text, MostHostText)
		}
	}
	return nil
}

// DefaultFormat is the format of encrypted disks that the host makes where neither flavor nor
// image asks for one (EE-03). Workers of earlier releases do not say, and make luks (EE-41).
func (h Host) DefaultFormat() DiskFormat { return cmp.Or(h.Default, DefaultDiskFormat) }

// HostTimeout is how long a host may be silent before it counts as down.
const HostTimeout = 60 * time.Second

// Up reports whether the host was seen lately.
func (h Host) Up(now time.Time) bool { return !h.ForcedDown && now.Sub(h.LastSeen) < HostTimeout }

// SharesTPM reports whether two hosts have the states of vTPMs on the same storage, as they say.
func (h Host) SharesTPM(other Host) bool {
	return h.ID != other.ID && h.TPMStorage != "" && h.TPMStorage == other.TPMStorage
}

// SharesDisks reports whether two hosts have servers' folders on the same storage, as they say.
func (h Host) SharesDisks(other Host) bool {
	return h.ID != other.ID && h.DiskStorage != "" && h.DiskStorage == other.DiskStorage
}

// Resources is an amount of what servers consume on a host.
type Resources struct {
	VCPUs    int `json:"vcpus"`
	MemoryMB int `json:"memory_mb"`
	DiskGB   int `json:"disk_gb"`            // of its file system, or pool
	GroupMB  int `json:"group_mb,omitempty"` // of its volume group
}

// Resources is what a server consumes: what its flavor says, and a root disk of which
// the image says how large it is.
func (s Server) Resources() Resources {
	out := s.Flavor.Resources()
	for _, d := range s.Disks {
		if d.Role == RootDisk && s.Flavor.RootGB == 0 {
			out.DiskGB += int((d.SizeMB + 1023) / 1024)
		}
	}
	return out
}

// CheckDisks refuses, with Corrupt, a new server whose disks are larger together than what it counts for on its host (S1).
func (s Server) CheckDisks() error {
	var mb int64
	for _, d := range s.Disks {
		if d.SizeMB < 0 {
			return Errorf(Corrupt, "server %s: disk %s has a size of %d MiB", s.ID, d.ID, d.SizeMB)
		}
		mb += d.SizeMB
	}
	if counted := int64(s.Resources().DiskGB) * 1024; mb > counted {
		return Errorf(Corrupt, "server %s: its disks have %d MiB, and it counts for %d", s.ID, mb, counted)
	}
	return nil
}

// ResourcesOn is what a server consumes on a host: disks that are volumes are in its volume group, others
// in its file system. A host that does not say what its group has counts them all in the file system.
func (s Server) ResourcesOn(h Host) Resources { return s.Resources().on(h, s.Disks) }

// And is both together.
func (r Resources) And(more Resources) Resources {
	return Resources{
		VCPUs: r.VCPUs + more.VCPUs, MemoryMB: r.MemoryMB + more.MemoryMB, DiskGB: r.DiskGB + more.DiskGB, GroupMB: r.GroupMB + more.GroupMB,
	}
}

// on is what a server with these disks consumes on a host.
func (r Resources) on(h Host, disks []Disk) Resources {
	if !h.Groups {
		return r
	}
	files := 0
	for _, d := range (Server{Disks: disks}).InFormat(h.DefaultFormat()).Disks {
		if d.OnDevice() {
			r.DiskGB -= int((d.SizeMB + 1023) / 1024)
			r.GroupMB += d.volumeMB()
		} else {
			files++
		}
	}
	if r.DiskGB < 0 || files == 0 && len(disks) > 0 {
		r.DiskGB = 0
	}
	return r
}

// Resources is what a server of the flavor consumes. Swap counts in whole GiB.
func (f Flavor) Resources() Resources {
	return Resources{VCPUs: f.VCPUs, MemoryMB: f.MemoryMB, DiskGB: f.RootGB + f.EphemeralGB + (f.SwapMB+1023)/1024}
}
