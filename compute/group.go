package compute

import (
	"fmt"
	"slices"
)

// GroupPolicy says which hosts the servers of a group have.
type GroupPolicy string

// The policies. A soft one is a wish: it orders hosts, and refuses none.
const (
	GroupAffinity         GroupPolicy = "affinity"      // one host has them all
	GroupAntiAffinity     GroupPolicy = "anti-affinity" // no host has more of them than the group's rule says
	GroupSoftAffinity     GroupPolicy = "soft-affinity"
	GroupSoftAntiAffinity GroupPolicy = "soft-anti-affinity"
)

// IsHard reports whether the policy refuses hosts.
func (p GroupPolicy) IsHard() bool { return p == GroupAffinity || p == GroupAntiAffinity }

// Affinity says with which other servers a server may share its host: what its group and the hints
// of its create say, and where those servers are.
type Affinity struct {
	Policy  GroupPolicy // of its group; "": it is in none
	Most    int         // servers of the group on one host, where they are apart
	Members []HostID    // of the group's other servers, each as often as it has servers. One that moves is on both
	Apart   []HostID    // that have servers with which it shares none
	Beside  []HostID    // that have servers with which it shares one
	IsTied  bool        // only a host of Beside will do, also if there is none
	Host    *HostID     // that was asked for; nil: any
}

// on is how many of the group's other servers a host has.
func (a Affinity) on(host HostID) (n int) {
	for _, h := range a.Members {
		if h == host {
			n++
		}
	}
	return n
}

// Unfit says why a server may not go to a host; "" if it may.
func (a Affinity) Unfit(host HostID) string {
	switch n := a.on(host); {
	case a.Host != nil && *a.Host != host:
		return "is not the host that was asked for"
	case a.Policy == GroupAntiAffinity && n >= a.Most:
		return fmt.Sprintf("has %d of the group's servers, and may have %d", n, a.Most)
	case a.Policy == GroupAffinity && n < len(a.Members):
		return "has not all of the group's servers"
	case slices.Contains(a.Apart, host):
		return "has a server that the scheduler hint different_host names"
	case a.IsTied && !slices.Contains(a.Beside, host):
		return "has no server that the scheduler hint same_host names"
	}
	return ""
}

// compare orders two hosts by what a soft policy wishes.
func (a Affinity) compare(x, y HostID) int {
	switch a.Policy {
	case GroupSoftAffinity:
		return a.on(y) - a.on(x)
	case GroupSoftAntiAffinity:
		return a.on(x) - a.on(y)
	default:
		return 0
	}
}
