package compute_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"strongroom/compute"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func host(change func(*compute.Host)) compute.Host {
	h := compute.Host{
		ID: compute.HostID{UUID: uuid.New()}, Name: "node", Zone: "east", Traits: []string{"COMPUTE_EPHEMERAL_ENCRYPTION", "CUSTOM_A"}, Networks: []string{"net-1"},
		Capacity: compute.Resources{VCPUs: 4, MemoryMB: 1000, DiskGB: 10}, LastSeen: now.Add(-time.Second),
	}
	if change != nil {
		change(&h)
	}
	return h
}

func TestUnfit(t *testing.T) {
	t.Parallel()
	want := compute.Request{
		Resources: compute.Resources{VCPUs: 2, MemoryMB: 500, DiskGB: 5},
		Traits:    compute.Traits{Required: []string{"COMPUTE_EPHEMERAL_ENCRYPTION"}, Forbidden: []string{"CUSTOM_B"}},
		Networks:  []string{"net-1"},
		Zone:      "east",
		Project:   "p",
	}
	for reason, change := range map[string]func(*compute.Host){
		"":                       nil,
		"disabled":               func(h *compute.Host) { h.Disabled = true },
		"in zone west, not east": func(h *compute.Host) { h.Zone = "west" },
		"forced down":            func(h *compute.Host) { h.ForcedDown = true },
		"revoked":                func(h *compute.Host) { h.Revoked = true }, // H1
		"last seen 1m0s ago":     func(h *compute.Host) { h.LastSeen = now.Add(-time.Minute) },
		"has network net-1 for other projects": func(h *compute.Host) { // H8
			h.Private = map[string][]string{"net-1": {"q", "r"}}
		},
		"lacks network net-1":                      func(h *compute.Host) { h.Networks = nil },
		"lacks trait COMPUTE_EPHEMERAL_ENCRYPTION": func(h *compute.Host) { h.Traits = nil },
		"has forbidden trait CUSTOM_B":             func(h *compute.Host) { h.Traits = append(h.Traits, "CUSTOM_B") },
		"2 VCPUs wanted, 1 free":                   func(h *compute.Host) { h.Used.VCPUs = 3 },
		"500 MB of memory wanted, 499 free":        func(h *compute.Host) { h.Used.MemoryMB = 501 },
		"5 GB of disk wanted, 0 free":              func(h *compute.Host) { h.Used.DiskGB = 11 },
	} {
		h := host(change)
		require.Equal(t, reason, h.Unfit(want, now))
		require.Equal(t, reason == "", len(compute.Candidates([]compute.Host{h}, want, now)) == 1, reason)
	}
}

func TestCandidatesMostFreeMemoryFirst(t *testing.T) {
	t.Parallel()
	busy := host(func(h *compute.Host) { h.Used.MemoryMB = 400 })
	crowded := host(func(h *compute.Host) { h.Servers = 3 })
	free := host(nil)
	big := host(func(h *compute.Host) { h.Capacity.MemoryMB = 2000; h.Used.MemoryMB = 900 })
	got := compute.Candidates([]compute.Host{busy, crowded, free, big}, compute.Request{}, now)
	require.Equal(t, []compute.Host{big, free, crowded, busy}, got)
}

// Whoever is chosen can take the server, nobody who can is left out, and the
// order does not depend on the order of the question.
func TestCandidatesProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hosts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) compute.Host {
			return host(func(h *compute.Host) {
				h.Used.MemoryMB = rapid.IntRange(0, 1200).Draw(t, "used")
				h.Servers = rapid.IntRange(0, 2).Draw(t, "servers")
				h.Disabled = rapid.Bool().Draw(t, "disabled")
			})
		}), 0, 8).Draw(t, "hosts")
		want := compute.Request{Resources: compute.Resources{MemoryMB: rapid.IntRange(0, 1000).Draw(t, "memory")}}
		got := compute.Candidates(hosts, want, now)
		fit := 0
		for _, h := range hosts {
			if !h.Disabled && h.Capacity.MemoryMB-h.Used.MemoryMB >= want.Resources.MemoryMB {
				fit++
			}
		}
		require.Len(t, got, fit)
		for i := 1; i < len(got); i++ {
			require.LessOrEqual(t, got[i-1].Used.MemoryMB, got[i].Used.MemoryMB)
		}
		require.Equal(t, got, compute.Candidates(rapid.Permutation(hosts).Draw(t, "shuffled"), want, now))
	})
}

func TestRequestOf(t *testing.T) {
	t.Parallel()
	s := compute.Server{
		Flavor:   compute.Flavor{VCPUs: 2, MemoryMB: 512, RootGB: 3, EphemeralGB: 2, SwapMB: 1025},
		Networks: []compute.Network{{UUID: "net-1"}}, Traits: []string{"A"}, Forbidden: []string{"B"},
	}
	require.Equal(t, compute.Request{
		Resources: compute.Resources{VCPUs: 2, MemoryMB: 512, DiskGB: 7},
		Traits:    compute.Traits{Required: []string{"A"}, Forbidden: []string{"B"}},
		Networks:  []string{"net-1"},
	}, compute.RequestOf(s))
}

// EE-05: disks that are volumes are claimed of the host's volume group, and no file system lends
// its room to them; others are claimed of the file system. Where the host decides the format, its default says which.
func TestResourcesOnAHostWithAVolumeGroup(t *testing.T) {
	t.Parallel()
	of := func(formats ...compute.DiskFormat) compute.Server {
		s := compute.Server{Flavor: compute.Flavor{VCPUs: 1, MemoryMB: 1, RootGB: 3, SwapMB: 511}}
		for i, format := range formats {
			d := compute.Disk{Role: []compute.DiskRole{compute.RootDisk, compute.SwapDisk}[i], SizeMB: []int64{3072, 511}[i], Encrypted: format != "off"}
			if d.Encrypted {
				d.Format = format
			}
			s.Disks = append(s.Disks, d)
		}
		return s
	}
	grouped := host(func(h *compute.Host) { h.Groups, h.Default = true, compute.FormatLUKSv2 })
	for _, c := range []struct {
		of          compute.Server
		on          compute.Host
		disk, group int
	}{
		{of("plain", "plain"), grouped, 0, 3072 + 512},
		{of("luksv2", "luksv2"), grouped, 0, 3072 + 16 + 528},
		{of("", ""), grouped, 0, 3072 + 16 + 528},
		{of("", ""), host(func(h *compute.Host) { h.Groups = true }), 4, 0},
		{of("luks", "luks"), grouped, 4, 0},
		{of("off", "off"), grouped, 4, 0},
		{of("plain", "off"), grouped, 1, 3072},
		{of("plain", "plain"), host(nil), 4, 0},                            // its worker does not say what the group has
		{compute.Server{Flavor: compute.Flavor{RootGB: 3}}, grouped, 3, 0}, // no disks are planned
	} {
		got := c.of.ResourcesOn(c.on)
		require.Equal(t, []int{c.disk, c.group}, []int{got.DiskGB, got.GroupMB}, "%+v", c.of.Disks)
	}

	fits := func(s compute.Server, change func(*compute.Host)) string {
		h := host(func(h *compute.Host) {
			h.Groups, h.Default, h.Capacity.GroupMB = true, compute.FormatLUKS, 3600
			h.Traits = []string{compute.TraitEncryption, compute.TraitEncryptionLUKS, compute.TraitEncryptionPlain}
		})
		change(&h)
		return h.Unfit(compute.RequestOf(s), now)
	}
	plain, luks := of("plain", "plain"), of("", "")
	full := func(h *compute.Host) { h.Used.DiskGB = 10 }
	require.Empty(t, fits(plain, full), "the file system is full")
	require.Equal(t, "4 GB of disk wanted, 0 free", fits(luks, full))
	full = func(h *compute.Host) { h.Used.GroupMB = 17 }
	require.Equal(t, "3584 MB of the volume group wanted, 3583 free", fits(plain, full))
	require.Empty(t, fits(luks, full), "the group is full")
	require.Empty(t, fits(luks, func(h *compute.Host) { h.Used.GroupMB = 9999 }), "more was claimed than the group has by now")
}

// H8: a network is limited as all hosts say together.
func TestH8OneHostsLimitHoldsOnAll(t *testing.T) {
	t.Parallel()
	limits := func(private map[string][]string) compute.Host {
		return host(func(h *compute.Host) { h.Private = private })
	}
	require.Empty(t, compute.PrivateNetworks([]compute.Host{limits(nil), limits(map[string][]string{})}))
	require.Equal(t, map[string][]string{"net-1": {"p"}, "net-2": {"q"}, "net-3": {}}, compute.PrivateNetworks([]compute.Host{
		limits(nil), limits(map[string][]string{"NET-1": {"p", "q"}, "net-2": {"q"}}),
		limits(map[string][]string{"net-1": {"r", "p"}, "net-3": {"p"}}), limits(map[string][]string{"net-3": {"q"}}),
	}))
}
