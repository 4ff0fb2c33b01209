package compute

import (
	"fmt"
	"strconv"
	"strings"
)

// Use is how much is held of what quotas count.
type Use struct {
	Instances int64
	Cores     int64
	MemoryMB  int64
	DiskGB    int64

	// Groups are a project's groups of servers, GroupMembers the servers of one user in one of them.
	Groups       int64
	GroupMembers int64
	KeyPairs     int64 // of one user
}

// Unlimited is a limit that is not there. Every negative number is one.
const Unlimited = -1

// Quota is how much the servers of a project may hold together.
type Quota Use

// NoQuota limits nothing.
var NoQuota = Quota{Instances: Unlimited, Cores: Unlimited, MemoryMB: Unlimited, DiskGB: Unlimited, Groups: Unlimited, GroupMembers: Unlimited, KeyPairs: Unlimited}

// IsNone reports whether nothing that servers hold is limited.
func (q Quota) IsNone() bool {
	return q.Instances < 0 && q.Cores < 0 && q.MemoryMB < 0 && q.DiskGB < 0
}

// UseOf is what one server holds. The columns vcpus, memory_mb and disk_gb of
// its row say the same.
func UseOf(f Flavor, img Image) Use {
	root := int64(f.RootGB)
	if root == 0 {
		root = ImageGB(img)
	}
	return Use{
		Instances: 1, Cores: int64(f.VCPUs), MemoryMB: int64(f.MemoryMB),
		DiskGB: root + int64(f.EphemeralGB) + (int64(f.SwapMB)+1023)/1024,
	}
}

// ImageGB is how much a disk that is as large as its image counts: the largest size
// that the image's record names.
func ImageGB(img Image) int64 {
	bytes := max(img.SizeBytes, img.VirtualBytes)
	if inside, ok := img.decryptSize(); ok {
		bytes = max(bytes, inside)
	}
	return (bytes + 1<<30 - 1) >> 30
}

// resource is one of the things that quotas count, in the words of the compute API.
type resource struct {
	name              string
	limit, used, each int64
}

// resources are in the order in which the API names them.
func (q Quota) resources(used, each Use) []resource {
	return []resource{
		{"cores", q.Cores, used.Cores, each.Cores},
		{"disk", q.DiskGB, used.DiskGB, each.DiskGB},
		{"instances", q.Instances, used.Instances, each.Instances},
		{"ram", q.MemoryMB, used.MemoryMB, each.MemoryMB},
	}
}

// room is how many more there may be, at most most.
func (r resource) room(most int64) int64 {
	switch {
	case r.limit < 0:
		return most
	case r.used > r.limit:
		return 0
	case r.each == 0:
		return most
	}
	return min(most, (r.limit-r.used)/r.each)
}

// Fit is how many of most servers can be made beside what is used; each holds the
// same. Forbidden, with the API's text: fewer than least.
func (q Quota) Fit(used, each Use, least, most int) (int, error) {
	fit, over := int64(most), []resource{}
	for _, r := range q.resources(used, each) {
		room := r.room(int64(most))
		if room < int64(most) {
			over = append(over, r)
		}
		fit = min(fit, room)
	}
	if fit > 0 && fit >= int64(least) {
		return int(fit), nil
	}
	return 0, exceeded(over, least, most)
}

// Grow reports whether a server may hold more than it does. Forbidden: it may not.
// What does not grow is not looked at, for a limit may be lowered below what is used.
func (q Quota) Grow(used, more Use) error {
	var over []resource
	for _, r := range q.resources(used, more) {
		if r.each > 0 && r.room(1) == 0 {
			over = append(over, r)
		}
	}
	if len(over) == 0 {
		return nil
	}
	return exceeded(over, 1, 1)
}

func exceeded(over []resource, least, most int) error {
	var names, asked, used, limits []string
	for _, r := range over {
		want := strconv.FormatInt(r.each*int64(most), 10)
		if r.name == "instances" && least != most {
			want = fmt.Sprintf("%d-%d", least, most)
		}
		names, asked = append(names, r.name), append(asked, want)
		used, limits = append(used, strconv.FormatInt(r.used, 10)), append(limits, strconv.FormatInt(r.limit, 10))
	}
	list := func(items []string) string { return strings.Join(items, ", ") }
	return Errorf(Forbidden, "Quota exceeded for %s: Requested %s, but already used %s of %s %s",
		list(names), list(asked), list(used), list(limits), list(names))
}
