package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
)

// sharedInClear is a flavor of guests that do nothing.
var sharedInClear = flavorSpec{"e2e-shared-clear", 64, 0, 0, 0, nil}

// sharer is one of the servers that share a share.
type sharer struct {
	id      string
	host    stack.Host
	has, on bool // the share, and whether it runs
}

// SH-17: two servers of one host and one of another have the same share. In whatever order they are attached, started,
// stopped, detached and deleted, each host has it mounted as long as one of its servers runs with it, and no longer, and
// in the end nothing is left. A deep run has 30 such sequences; the seed decides them.
func TestSH17ServersComeAndGoWithAShare(t *testing.T) {
	backends(t, local) // the hosts of a test are on one machine, and so is such a share
	c := twoHosts(t)
	s := c.share(t)
	sequences := 2
	if full() {
		sequences = 30
	}
	for i := range sequences {
		t.Run(fmt.Sprintf("sequence %d", i), func(t *testing.T) { c.sequence(t, s, fmt.Sprintf("sequence %d", i)) })
	}
}

func (c *testCloud) sequence(t *testing.T, s testShare, name string) {
	t.Helper()
	var all []*sharer
	for _, host := range []int{1, 1, 2} {
		h := c.Host(host)
		id := c.on(t, h, func() string { return c.createIdle(t, sharedInClear) })
		all = append(all, &sharer{id: id, host: h, on: true})
	}
	d := diceOf(name)
	for range 14 {
		v := all[d.IntN(len(all))]
		var step string
		switch {
		case len(all) > 1 && d.IntN(10) == 0:
			step = "delete"
			c.delete(t, v.id)
			v.on, v.has = false, false
		case v.on:
			step, v.on = "stop", false
			c.turnOff(t, v.id)
		case !v.has:
			step, v.has = "attach", true
			require.NoError(t, c.attach(t, v.id, s, "data"))
			c.hasShare(t, v.id, s, "inactive")
		case d.IntN(3) == 0:
			step, v.has = "detach", false
			require.NoError(t, c.detach(t, v.id, s))
			c.settled(t, v.id)
		default:
			step, v.on = "start", true
			c.turnOn(t, v.id)
			c.hasShare(t, v.id, s, "active")
		}
		t.Logf("%s of %s", step, v.id)
		c.mountedForThoseThatRun(t, s, all)
		if step == "delete" {
			var left []*sharer
			for _, other := range all {
				if other != v {
					left = append(left, other)
				}
			}
			all = left
		}
	}
	for _, v := range all {
		c.delete(t, v.id)
		v.on = false
		c.mountedForThoseThatRun(t, s, all)
	}
	c.nothingIsLeft(t)
}

// mountedForThoseThatRun requires that a host has the share mounted if one of its servers runs with it, and soon not otherwise.
func (c *testCloud) mountedForThoseThatRun(t *testing.T, s testShare, all []*sharer) {
	t.Helper()
	for n := range c.hosts {
		h, used := c.Host(n+1), false
		for _, v := range all {
			used = used || v.host == h && v.on && v.has
		}
		if used {
			require.True(t, mountedOn(t, h, s), "host %d has servers that run with it", h.Number)
			continue
		}
		await.For(t, fmt.Sprintf("host %d, which has no server that runs with it, has not mounted the share", h.Number), func() bool { return !mountedOn(t, h, s) }, c.hostProgress(h))
	}
	require.Empty(t, c.audit(t).Findings)
}

// mountedOn reports whether a host's libvirtd sees the share mounted.
func mountedOn(t *testing.T, h stack.Host, s testShare) bool {
	t.Helper()
	dir := filepath.Dir(h.Instances())
	pid, err := os.ReadFile(filepath.Join(dir, "libvirt", "run", "namespace.pid"))
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "mountinfo"))
	require.NoError(t, err)
	return strings.Contains(string(text), filepath.Join(dir, "mounts", s.id, "mnt"))
}
