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
