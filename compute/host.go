package compute

import (
	"cmp"
	"maps"
	"slices"
	"time"

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

// Resources is an amount of what servers consume on a host.
type Resources struct {
	VCPUs    int `json:"vcpus"`
	MemoryMB int `json:"memory_mb"`
	DiskGB   int `json:"disk_gb"`
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

// Resources is what a server of the flavor consumes. Swap counts in whole GiB.
func (f Flavor) Resources() Resources {
	return Resources{VCPUs: f.VCPUs, MemoryMB: f.MemoryMB, DiskGB: f.RootGB + f.EphemeralGB + (f.SwapMB+1023)/1024}
}
