package mount_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"strongroom/compute"
)

// SH-17: two servers of one host and one of another use a share. In whatever order they begin to use it, run, stop
// and end the use, also twice, whenever the worker is another process, and whichever notes are lost, a host has it mounted once as long as
// one of its guests runs with it, or one of its servers is noted to use it, and when they all have ended their use, no longer.
func TestSH17WhateverTheOrder(t *testing.T) {
	t.Parallel()
	hosts := []*host{begin(t), begin(t)}
	hosts[1].share, hosts[1].source = hosts[0].share, hosts[0].source
	on := map[compute.ServerID]*host{newServer(): hosts[0], newServer(): hosts[0], newServer(): hosts[1]}
	var servers []compute.ServerID
	for id := range on {
		servers = append(servers, id)
	}
	rapid.Check(t, func(r *rapid.T) {
		uses := map[compute.ServerID]bool{}
		found := func(id compute.ServerID) { // guests are asked where no note of another server is left
			for other := range uses {
				if other != id && on[other] == on[id] {
					return
				}
			}
			for other := range on[id].running {
				if other != id {
					uses[other] = true
				}
			}
		}
		remove := func(id compute.ServerID) {
			h := on[id]
			err := h.Remove(t.Context(), h.use(id))
			if h.running[id] {
				require.Equal(r, compute.Conflict, compute.KindOf(err), "its guest runs")
				return
			}
			require.NoError(r, err)
			found(id)
			delete(uses, id)
		}
		r.Repeat(map[string]func(*rapid.T){
			"mount": func(r *rapid.T) {
				id := rapid.SampledFrom(servers).Draw(r, "server")
				require.NoError(r, on[id].Mount(t.Context(), on[id].input(id)))
				found(id)
				uses[id] = true
			},
			"start": func(r *rapid.T) {
				id := rapid.SampledFrom(servers).Draw(r, "server")
				if uses[id] {
					on[id].running[id] = true
				}
			},
			"lose a note": func(r *rapid.T) {
				id := rapid.SampledFrom(servers).Draw(r, "server")
				if uses[id] {
					on[id].forgets(id)
					delete(uses, id)
				}
			},
			"stop": func(r *rapid.T) {
				id := rapid.SampledFrom(servers).Draw(r, "server")
				delete(on[id].running, id)
			},
			"remove": func(r *rapid.T) { remove(rapid.SampledFrom(servers).Draw(r, "server")) },
			"another process": func(r *rapid.T) {
				h := rapid.SampledFrom(hosts).Draw(r, "host")
				h.Activities = h.again(h.Dir)
			},
			"": func(r *rapid.T) {
				for _, h := range hosts {
					var want []compute.Seen
					for id := range uses {
						if on[id] == h {
							want = append(want, compute.Seen{Kind: compute.ThingShareMount, Name: compute.ShareUse(h.share, id)})
						}
					}
					mounts := h.mounts()
					require.LessOrEqual(r, mounts, 1)
					if len(want) > 0 || len(h.running) > 0 {
						require.Equal(r, 1, mounts)
					}
					if len(want) == 0 && mounts == 1 {
						want = []compute.Seen{{Kind: compute.ThingShareMount, Name: compute.ShareUse(h.share, compute.ServerID{})}}
					}
					require.ElementsMatch(r, want, h.seen())
				}
			},
		})
		for _, id := range servers {
			delete(on[id].running, id)
			remove(id)
		}
		for _, h := range hosts {
			require.Empty(r, h.seen())
			require.Zero(r, h.mounts())
		}
	})
}
