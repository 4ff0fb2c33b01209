package compute

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// NoValidHost is the text of the fault of a server that no host can take.
const NoValidHost = "No valid host was found. There are not enough hosts available."

// Request is what a server needs of a host.
type Request struct {
	Resources Resources
	Disks     []Disk
	Traits    Traits
	Networks  []string // uuids
	Project   string   // whose the server is
	Zone      string   // the availability zone; "" for any
	Default   bool     // disks are made in the host's own default format
	Affinity  Affinity // with which other servers; RequestOf knows of none
	// AggregateSpecs are what the flavor asks of the metadata of a host's aggregates, by its keys.
	AggregateSpecs map[string]string
	// TPMStorage is where the state of the server's vTPM is that no host can be asked for (TPM-39): hosts that
	// have that storage come first. RequestOf knows of none.
	TPMStorage string
	// DiskStorage is where the server's disks are that no host can be asked for, where they are to stay: hosts that have that storage come
	// before all others. RequestOf knows of none.
	DiskStorage string
}

// RequestOf gives what a server needs of a host.
func RequestOf(s Server) Request {
	required := slices.Concat(s.Traits, s.formatTraits(), s.firmwareTraits(), s.hardwareTraits())
	slices.Sort(required)
	request := Request{
		Resources: s.Resources(), Disks: s.Disks, Traits: Traits{Required: slices.Compact(required), Forbidden: s.Forbidden},
		Zone: s.System[SystemPinnedZone], Project: s.ProjectID, Default: s.LeavesFormat(), AggregateSpecs: s.Flavor.aggregateSpecs(),
	}
	for _, network := range s.Networks {
		if network.Port != nil { // the network service's: hosts list none of these
			continue
		}
		request.Networks = append(request.Networks, network.UUID)
	}
	return request
}

// Fits reports whether the resources are free on the host.
func (h Host) Fits(want Resources) bool { return h.lacks(want) == "" }

// lacks names the first resource that is short, "" if none is.
func (h Host) lacks(want Resources) string {
	for _, r := range []struct {
		name                 string
		capacity, used, want int
	}{
		{"VCPUs", h.Capacity.VCPUs, h.Used.VCPUs, want.VCPUs},
		{"MB of memory", h.Capacity.MemoryMB, h.Used.MemoryMB, want.MemoryMB},
		{"GB of disk", h.Capacity.DiskGB, h.Used.DiskGB, want.DiskGB},
		{"MB of the volume group", h.Capacity.GroupMB, min(h.Used.GroupMB, h.Capacity.GroupMB), want.GroupMB},
	} {
		if r.want > r.capacity-r.used {
			return fmt.Sprintf("%d %s wanted, %d free", r.want, r.name, max(0, r.capacity-r.used))
		}
	}
	return ""
}

// Unfit says why a host cannot take a server, for the log; "" if it can.
func (h Host) Unfit(want Request, now time.Time) string {
	switch {
	case h.Disabled:
		return "disabled"
	case h.ForcedDown:
		return "forced down"
	case h.Revoked: // it may be an attacker's, and has just reported itself
		return "revoked"
	case !h.Up(now):
		return "last seen " + now.Sub(h.LastSeen).Round(time.Second).String() + " ago"
	}
	if why := cmp.Or(h.Outside(want), want.Traits.Unmet(h.Traits)); why != "" {
		return why
	}
	if want.Default && !Opens(h.Traits, h.DefaultFormat()) {
		return "cannot make its default encryption format " + string(h.DefaultFormat())
	}
	if missing := without(want.Networks, h.Networks); len(missing) > 0 {
		return "lacks network " + strings.Join(missing, ", ")
	}
	for _, network := range want.Networks {
		if !h.offers(network, want.Project) {
			return "has network " + network + " for other projects"
		}
	}
	if why := want.Affinity.Unfit(h.ID); why != "" {
		return why
	}
	return h.lacks(want.Resources.on(h, want.Disks))
}

// Outside says why a host's availability zone or its aggregates keep a server from it; "" if they do not.
func (h Host) Outside(want Request) string {
	if want.Zone != "" && h.Zone != want.Zone {
		return "in zone " + h.Zone + ", not " + want.Zone
	}
	return h.Aggregates.unfit(want)
}

// offers reports whether a network of the host is for a project.
func (h Host) offers(network, project string) bool {
	for id, owners := range h.Private {
		if strings.EqualFold(id, network) && !slices.Contains(owners, project) {
			return false
		}
	}
	return true
}

// PrivateNetworks are the projects that networks are limited to, as all hosts say together: one
// that any host limits is limited on each, to the projects that all of those name. A host
// whose configuration lacks the limit must not open the network to others (H8).
func PrivateNetworks(hosts []Host) map[string][]string {
	all := map[string][]string{}
	for _, h := range hosts {
		for id, owners := range h.Private {
			id = strings.ToLower(id)
			if known, limited := all[id]; limited {
				owners = within(owners, known)
			}
			all[id] = owners
		}
	}
	return all
}

// Among gives those of the hosts that are none of not; only, if it is not nil, alone.
func Among(hosts []Host, not []HostID, only *HostID) []Host {
	var out []Host
	for _, h := range hosts {
		if !slices.Contains(not, h.ID) && (only == nil || *only == h.ID) {
			out = append(out, h)
		}
	}
	return out
}

// Candidates gives the hosts that can take a server: first those that have its disks, then those that have the state of its vTPM, then what a
// soft policy of its group wishes, then the one with the most free memory, then the one with the fewest servers, then by
// id, so that the same hosts always give the same order.
func Candidates(hosts []Host, want Request, now time.Time) []Host {
	var fit []Host
	for _, h := range hosts {
		if h.Unfit(want, now) == "" {
			fit = append(fit, h)
		}
	}
	slices.SortFunc(fit, func(a, b Host) int {
		return cmp.Or(
			cmp.Compare(want.lacksDisks(a), want.lacksDisks(b)),
			cmp.Compare(want.lacksTPM(a), want.lacksTPM(b)),
			want.Affinity.compare(a.ID, b.ID),
			cmp.Compare(b.Capacity.MemoryMB-b.Used.MemoryMB, a.Capacity.MemoryMB-a.Used.MemoryMB),
			cmp.Compare(a.Servers, b.Servers),
			strings.Compare(a.ID.String(), b.ID.String()),
		)
	})
	return fit
}

// Keep gives, of the hosts that fit, those to which a server may go from one that cannot be asked for its disks and the state of its vTPM. As
// long as a host that has its disks is there, or one that has the state could take the server and does not answer, only others that have
// them are left; refusal, with Conflict, is for where none of them takes it: elsewhere they would be given up. Otherwise it is NoHost. One that
// its operator forced down is not waited for. silent are hosts that took no work.
func (want Request) Keep(fit, all []Host, from HostID, silent []HostID, now time.Time) (left []Host, refusal error) {
	left, refusal = fit, Errorf(NoHost, NoValidHost)
	for _, kept := range []struct {
		storage, what string
		lacks         func(Host) int
		always        bool // a host that has it keeps the server from others also when it could not take the server itself
	}{{want.TPMStorage, "the state of the server's vTPM", want.lacksTPM, false}, {want.DiskStorage, "the server's disks", want.lacksDisks, true}} {
		for _, h := range all {
			if kept.storage == "" || h.ID == from || h.ForcedDown || kept.lacks(h) > 0 {
				continue
			}
			answers := h.Up(now) && !slices.Contains(silent, h.ID)
			h.LastSeen = now
			why := h.Unfit(want, now)
			var mend string
			switch {
			case !answers && why == "":
				why, mend = "does not answer", "start the worker of "+h.Name
			case kept.always:
				why, mend = "cannot take the server: "+cmp.Or(why, "an attempt has just failed"), "see to that"
			default: // it could not take it, either, if it answered
				continue
			}
			left = slices.DeleteFunc(slices.Clone(left), func(h Host) bool { return kept.lacks(h) > 0 })
			refusal = Errorf(Conflict, "host %s has %s, on storage that it shares with the host that the server leaves, and %s; elsewhere that "+
				"would be given up: %s and try again, force it down if it is dead as well, or name a host", h.Name, kept.what, why, mend)
			break
		}
	}
	return left, refusal
}

// Cut leaves no host that has the server's disks as long as the host that the server leaves was not forced down, by an operator who has cut it off
// from their storage: a watchdog ends guests, and libvirt on a host that comes back may still take the files away from QEMU's user.
func (want Request) Cut(from Host, fit []Host, refusal error) ([]Host, error) {
	has := func(h Host) bool { return want.DiskStorage != "" && want.lacksDisks(h) == 0 }
	if from.ForcedDown || !slices.ContainsFunc(fit, has) {
		return fit, refusal
	}
	return slices.DeleteFunc(slices.Clone(fit), has), Errorf(Conflict, "host %s is not forced down, and other hosts share the storage of the server's disks: power it off, "+
		"or cut it off from that storage, and force it down", from.Name)
}

// lacksDisks is 1 for a host that does not have the storage with the server's disks.
func (want Request) lacksDisks(h Host) int {
	if want.DiskStorage == "" || want.DiskStorage == h.DiskStorage {
		return 0
	}
	return 1
}

// lacksTPM is 1 for a host that does not have the storage with the state of the server's vTPM.
func (want Request) lacksTPM(h Host) int {
	if want.TPMStorage == "" || want.TPMStorage == h.TPMStorage {
		return 0
	}
	return 1
}

func without(want, have []string) []string {
	return slices.DeleteFunc(slices.Clone(want), func(s string) bool { return slices.Contains(have, s) })
}

func within(want, have []string) []string {
	return slices.DeleteFunc(slices.Clone(want), func(s string) bool { return !slices.Contains(have, s) })
}
