package integration_test

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/await"
	"strongroom/deploy/dev/libvirtd/libvirttest"
	"strongroom/deploy/dev/process"
)

// offWithShare makes a server that is off and has a share.
func (c *testCloud) offWithShare(t *testing.T, s testShare) string {
	t.Helper()
	id := c.createIdle(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	c.turnOff(t, id)
	require.NoError(t, c.attach(t, id, s, "data"))
	c.hasShare(t, id, s, "inactive")
	return id
}

// answers sends a request of a server's shares in a version, with a user's token or, for "", without one, and gives the status.
func (c *testCloud) answers(t *testing.T, user, version, method, path, body string) int {
	t.Helper()
	client := c.compute(t, "-demo")
	req, err := http.NewRequestWithContext(t.Context(), method, client.ServiceURL("servers", path), strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("OpenStack-API-Version", "compute "+version)
	if user != "" {
		req.Header.Set("X-Auth-Token", c.compute(t, user).Token())
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// keepsBusy has a file of a share's mount open, on the first host, until the test says that it may go.
func (c *testCloud) keepsBusy(t *testing.T, s testShare) (idle func()) {
	t.Helper()
	f, err := os.Open(filepath.Join("/proc", c.libvirtNamespace(t), "root", c.State, "mounts", s.id, "mnt", "busy"))
	require.NoError(t, err)
	return func() { require.NoError(t, f.Close()) }
}

// isUnmounted waits until the first host has no mount of a share.
func (c *testCloud) isUnmounted(t *testing.T) {
	t.Helper()
	mounts := 0
	await.For(t, "no share is mounted", func() bool { mounts = c.shareMounts(t); return mounts == 0 },
		await.Witness{Name: "mounts", Look: func() string { return strconv.Itoa(mounts) }}, c.hostProgress(c.Host(1)))
}

// unmountedSoon is isUnmounted, and then nothing else is left.
func (c *testCloud) unmountedSoon(t *testing.T) {
	t.Helper()
	c.isUnmounted(t)
	c.nothingIsLeftInTime(t)
}

// needsShares is a flavor whose servers need a host that can give them shares.
var needsShares = flavorSpec{"e2e-sharing", 64, 1, 0, 0, map[string]string{"trait:" + compute.TraitVirtioFS: "required", "trait:" + compute.TraitMemoryFile: "required"}}

// offersShares requires that a host whose QEMU is too old for shares says so, takes no server that asks for them, and gives none of its
// servers one; and that a host which offers them takes such a server, in the zone that its operator put it in, until
// back is called.
func (c *testCloud) offersShares(t *testing.T, id string, s testShare) (back func()) {
	t.Helper()
	socket := filepath.Join(c.dir, "older")
	libvirttest.Listen(t, socket, c.Host(1).LibvirtSocket()).ClaimQEMU(4_002_000)
	host := c.hostSettings(t)
	host.with(t, map[string]map[string]any{"host": {"libvirt_socket": socket}})
	log, err := os.ReadFile(c.LogFile("host"))
	require.NoError(t, err)
	require.Contains(t, string(log), `msg="servers can have no shares on this host" reason="QEMU is 4.2.0, shares need 5.0.0"`)
	none := c.createIdle(t, needsShares)
	require.Equal(t, "No valid host was found. There are not enough hosts available.", c.becomes(t, none, "ERROR").Fault.Message)
	c.delete(t, none)
	require.True(t, gophercloud.ResponseCodeIs(c.attach(t, id, s, "data"), http.StatusConflict))
	require.Empty(t, c.audit(t).Findings)

	host.with(t, map[string]map[string]any{"host": {"availability_zone": "sharing"}})
	there := c.createIdle(t, needsShares, func(o *servers.CreateOpts) { o.AvailabilityZone = "sharing" })
	require.Equal(t, "sharing", c.becomes(t, there, "ACTIVE").AvailabilityZone)
	c.delete(t, there)
	return func() { host.restore(t) }
}

// SH-05, SH-06, SH-07, SH-22, SH-26, SH-27, SH-28, SH-29, SH-31, SH-36: what is not attached, to whom nothing is shown, and what cannot be done with a server that has
// a share.
func TestSH22WhatAShareForbids(t *testing.T) {
	backends(t, local)
	c := ownCloud(t)
	s, other := c.share(t), c.share(t)
	id := c.createIdle(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	c.turnOff(t, id)
	defer c.offersShares(t, id, s)()

	ask := func(tag string) string { return `{"share": {"share_id": "` + s.id + `"` + tag + `}}` }
	for _, tag := range []string{`, "tag": ""`, `, "tag": "a b"`, `, "tag": "ä"`, `, "tag": "` + strings.Repeat("a", 256) + `"`, `, "rw": false`} {
		require.Equal(t, 400, c.answers(t, "-demo", "2.97", "POST", id+"/shares", ask(tag)), tag)
	}
	for _, r := range []struct{ method, path, body string }{
		{"GET", "/shares", ""}, {"GET", "/shares/" + s.id, ""}, {"POST", "/shares", ask("")}, {"DELETE", "/shares/" + s.id, ""},
	} {
		require.Equal(t, 401, c.answers(t, "", "2.97", r.method, id+r.path, r.body), r)
		require.Equal(t, 404, c.answers(t, "-demo", "2.96", r.method, id+r.path, r.body), r)
		require.Equal(t, 404, c.answers(t, "-alt", "2.97", r.method, id+r.path, r.body), r)
	}
	require.Equal(t, 403, c.answers(t, "-reader", "2.97", "POST", id+"/shares", ask("")))
	require.Equal(t, 403, c.answers(t, "-reader", "2.97", "DELETE", id+"/shares/"+s.id, ""))
	require.Equal(t, 400, c.answers(t, "-demo", "2.97", "GET", id+"/shares?all=1", ""))

	db, old := c.database(t), uuid.NewString() // a host of a release before shares
	_, err := db.Exec(t.Context(), `INSERT INTO hosts OVERRIDING USER VALUE SELECT (jsonb_populate_record(h, jsonb_build_object('id', $1::text, 'name', 'older', 'release', ''))).*
		FROM hosts h LIMIT 1`, old)
	require.NoError(t, err)
	require.Equal(t, 403, c.answers(t, "-demo", "2.97", "POST", id+"/shares", ask("")))
	_, err = db.Exec(t.Context(), `DELETE FROM hosts WHERE id = $1`, old)
	require.NoError(t, err)

	var codes [2]int // SH-07
	var both sync.WaitGroup
	for i := range codes {
		both.Go(func() { codes[i] = c.answers(t, "-demo", "2.97", "POST", id+"/shares", ask("")) })
	}
	both.Wait()
	require.ElementsMatch(t, []int{201, 409}, codes[:])
	c.hasShare(t, id, s, "inactive")
	shown, err := c.shares(t, "-reader", http.MethodGet, id, s.id, nil)
	require.NoError(t, err)
	share := shown["share"].(map[string]any)
	require.Equal(t, []string{"share_id", "status", "tag"}, slices.Sorted(maps.Keys(share)))
	require.Equal(t, s.id, share["tag"])
	require.Equal(t, 409, c.answers(t, "-demo", "2.97", "POST", id+"/shares", `{"share": {"share_id": "`+other.id+`", "tag": "`+s.id+`"}}`), "its tag is taken")

	flavor := c.flavor(t, smallEncrypted)
	off := map[string]string{
		"shelve": `null`, "resize": `{"flavorRef": "` + flavor + `"}`, "migrate": `null`, "rebuild": `{"imageRef": "` + c.settled(t, id).Image["id"].(string) + `"}`,
	}
	running := map[string]string{"suspend": `null`, "os-migrateLive": `{"host": null, "block_migration": "auto"}`, "shelve": `null`, "migrate": `null`}
	refused := func(actions map[string]string) {
		for action, body := range actions {
			user := "-demo"
			if strings.Contains(action, "igrate") {
				user = "-admin"
			}
			require.Equal(t, 409, c.answers(t, user, "2.97", "POST", id+"/action", `{"`+action+`": `+body+`}`), action)
		}
	}
	refused(off)
	c.turnOn(t, id)
	refused(running)
	c.hasShare(t, id, s, "active")
	h := c.Host(1)
	worker, runs := process.Named(c.PIDFile(h.Part("host")))
	require.True(t, runs)
	require.NoError(t, syscall.Kill(worker, syscall.SIGSTOP))
	goesOn := func() { _ = syscall.Kill(worker, syscall.SIGCONT) }
	t.Cleanup(goesOn)
	c.forceDown(t, h, true)
	t.Cleanup(func() { c.updateService(t, h, map[string]any{"forced_down": false}) })
	require.Equal(t, 409, c.answers(t, "-admin", "2.97", "POST", id+"/action", `{"evacuate": {}}`))
	// SH-21: it is deleted at once, and what its host has of the share goes when the host returns.
	c.delete(t, id)
	require.Equal(t, 1, c.shareMounts(t))
	goesOn()
	c.forceDown(t, h, false)
	c.unmountedSoon(t)
}

// SH-13, SH-15, SH-20, SH-32: a share whose mount is in use is in error until it can be unmounted, and keeps no server from being deleted; one
// that attaches or detaches keeps its server from starting; servers are deleted with shares in each status.
func TestSH32TheEdgesOfTheStatusChart(t *testing.T) {
	backends(t, local) // it has the host's mounts in use
	c := ownCloud(t)
	s := c.share(t)
	require.NoError(t, os.WriteFile(filepath.Join(s.folder, "busy"), nil, 0o600))
	start := func(id string) error { return servers.Start(t.Context(), c.compute(t, "-demo"), id).ExtractErr() }
	reboot := func(id string) {
		require.NoError(t, servers.Reboot(t.Context(), c.compute(t, "-demo"), id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
		c.becomes(t, id, "ACTIVE")
	}

	id := c.offWithShare(t, s)
	c.turnOn(t, id)
	idle := c.keepsBusy(t, s)
	c.turnOff(t, id)
	c.hasShare(t, id, s, "error")
	require.Equal(t, 1, c.shareMounts(t))
	idle()
	c.isUnmounted(t)
	require.NoError(t, c.detach(t, id, s), "from error")
	c.hasNoShare(t, id, s)
	c.nothingIsLeftInTime(t)

	// A share that is in the middle of something: an administrator has reset the server's state under the operation.
	db := c.database(t)
	is := func(id, status string) {
		_, err := db.Exec(t.Context(), "UPDATE server_shares SET status = $2 WHERE server_id = $1", id, status)
		require.NoError(t, err)
	}
	for _, status := range []string{"attaching", "detaching"} {
		require.NoError(t, c.attach(t, id, s, "data"))
		c.hasShare(t, id, s, "inactive")
		is(id, status)
		require.NoError(t, start(id))
		require.Contains(t, c.becomes(t, id, "ERROR").Fault.Message, s.id)
		c.hasShare(t, id, s, status)
		require.Zero(t, c.shareMounts(t))
		require.NoError(t, c.detach(t, id, s))
		c.settled(t, id)
		reboot(id)
		c.turnOff(t, id)
	}

	require.NoError(t, c.attach(t, id, s, "data"))
	c.hasShare(t, id, s, "inactive")
	c.turnOn(t, id)
	idle = c.keepsBusy(t, s)
	c.delete(t, id) // active, and its mount in use
	require.Equal(t, 1, c.shareMounts(t))
	idle()
	c.unmountedSoon(t)
	for _, status := range []string{"inactive", "attaching", "detaching", "error"} {
		id := c.offWithShare(t, s)
		is(id, status)
		c.delete(t, id)
		c.unmountedSoon(t)
	}
}

// SH-39: the guide has what users and operators look for, by the words that the product has for it.
func TestSH39TheGuideOfShares(t *testing.T) {
	backends(t, local) // it reads files
	t.Parallel()
	text, err := os.ReadFile("../docs/shares.md")
	require.NoError(t, err)
	users, operators, found := strings.Cut(string(text), "\n## Operate\n")
	require.True(t, found)
	said := []string{"mount -t virtiofs documents /mnt", "/etc/fstab", "meta_data.json", "mount-shares.service", "`strongroom 1.1`", "409"}
	for _, status := range []compute.ShareStatus{compute.ShareAttaching, compute.ShareInactive, compute.ShareActive, compute.ShareError, compute.ShareDetaching} {
		said = append(said, "| `"+string(status)+"` |")
	}
	for _, word := range said {
		require.Contains(t, users, word)
	}
	for _, word := range []string{
		compute.TraitVirtioFS, compute.TraitMemoryFile, compute.TraitNFSShares, compute.TraitLiveShares, "hw:mem_page_size", "availability_zone", "libvirt 6.2", "QEMU 5.0",
		"`share_address`", "2.82", "resource_lock:bypass_locked_show_action", "`control.share_interval`",
	} {
		require.Contains(t, operators, word)
	}
}
