package integration_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/stretchr/testify/require"
)

// testShare is a share of the demo project, on a machine that has no Manila.
type testShare struct {
	id     string
	folder string // where its data are
}

// share makes a share, which is deleted when the test ends: by then no server has it.
func (c *testCloud) share(t *testing.T) testShare {
	t.Helper()
	demo, err := c.session("-demo")
	require.NoError(t, err)
	got, err := demo.provider.GetAuthResult().(tokens.CreateResult).ExtractProject()
	require.NoError(t, err)
	project := got.ID
	out, err := c.strongroom("--config", c.ConfigFile(), "share", "create", t.Name(), "--project", project)
	require.NoError(t, err, out)
	s := testShare{id: strings.TrimSpace(out)}
	s.folder = filepath.Join(c.State, "shares", s.id, "data")
	require.DirExists(t, s.folder)
	t.Cleanup(func() {
		out, err := c.strongroom("--config", c.ConfigFile(), "share", "delete", s.id, "--project", project)
		require.NoError(t, err, out)
	})
	return s
}

// shares calls a route of a server's shares.
func (c *testCloud) shares(t *testing.T, user, method, server, share string, body any) (answer map[string]any, err error) {
	t.Helper()
	client := c.compute(t, user)
	client.Microversion = "2.97"
	url := client.ServiceURL("servers", server, "shares")
	if share != "" {
		url += "/" + share
	}
	opts := &gophercloud.RequestOpts{OkCodes: []int{200, 201}}
	if body != nil {
		opts.JSONBody = body
	}
	if method != http.MethodDelete {
		opts.JSONResponse = &answer
	}
	resp, err := client.Request(t.Context(), method, url, opts)
	if err == nil && method == http.MethodDelete {
		err = resp.Body.Close()
	}
	return answer, err
}

func (c *testCloud) attach(t *testing.T, server string, s testShare, tag string) error {
	t.Helper()
	_, err := c.shares(t, "-demo", http.MethodPost, server, "", map[string]any{"share": map[string]any{"share_id": s.id, "tag": tag}})
	return err
}

func (c *testCloud) detach(t *testing.T, server string, s testShare) error {
	t.Helper()
	_, err := c.shares(t, "-demo", http.MethodDelete, server, s.id, nil)
	return err
}

// hasShare requires the status of a server's share, once no operation is at work.
func (c *testCloud) hasShare(t *testing.T, server string, s testShare, status string) {
	t.Helper()
	c.settled(t, server)
	got, err := c.shares(t, "-demo", http.MethodGet, server, s.id, nil)
	require.NoError(t, err)
	require.Equal(t, status, got["share"].(map[string]any)["status"])
}

func (c *testCloud) turnOff(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, servers.Stop(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
}

func (c *testCloud) turnOn(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, servers.Start(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
}

// shareMounts counts the mounts of shares on the cloud's first host, as its libvirtd sees them.
func (c *testCloud) shareMounts(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", c.libvirtNamespace(t), "mountinfo"))
	require.NoError(t, err)
	return strings.Count(string(text), filepath.Join(c.State, "mounts")+"/")
}

// libvirtNamespace is the process whose mounts are those of the first host's libvirtd.
func (c *testCloud) libvirtNamespace(t *testing.T) string {
	t.Helper()
	pid, err := os.ReadFile(filepath.Join(c.State, "libvirt", "run", "namespace.pid"))
	require.NoError(t, err)
	return strings.TrimSpace(string(pid))
}

// SH-01, SH-03, SH-10, SH-11, SH-16, SH-17, SH-18, SH-23, SH-33: a guest mounts its share by the tag and
// writes a file that is in the share; another guest of the host reads it; the last one to stop
// takes the mount along.
func TestSH10AGuestMountsItsShare(t *testing.T) {
	backends(t, local)
	c := ownCloud(t)
	s := c.share(t)
	require.NoError(t, os.WriteFile(filepath.Join(s.folder, "letter"), []byte("from outside"), 0o644))
	ids := []string{c.create(t, encrypted), c.create(t, encrypted)}
	for _, id := range ids {
		c.becomes(t, id, "ACTIVE")
		require.True(t, gophercloud.ResponseCodeIs(c.attach(t, id, s, "data"), http.StatusConflict), "it runs") // SH-04
		c.turnOff(t, id)
		require.NoError(t, c.attach(t, id, s, "data"))
		c.hasShare(t, id, s, "inactive")
		require.True(t, gophercloud.ResponseCodeIs(c.attach(t, id, s, "other"), http.StatusConflict), "it has it") // SH-07
	}
	require.Zero(t, c.shareMounts(t))
	for i, id := range ids {
		c.turnOn(t, id)
		c.hasShare(t, id, s, "active")
		require.Equal(t, 1, c.shareMounts(t))
		line := c.serial(t, id)
		line.expect("TG tick=")
		require.Contains(t, line.ask("share data", "TG share "), "err=<nil>")
		require.Contains(t, line.ask("cat /share/letter", "TG cat "), "from outside")
		if i == 1 {
			require.Contains(t, line.ask("cat /share/note", "TG cat "), "by the first")
		}
		require.Contains(t, line.ask("write /share/note by the first", "TG write "), "err=<nil>")
		require.NoError(t, line.conn.Close())
	}
	text, err := os.ReadFile(filepath.Join(s.folder, "note"))
	require.NoError(t, err)
	require.Equal(t, "by the first", string(text))
	require.Empty(t, c.audit(t).Findings)

	// SH-02, SH-25: the administrator alone reads where the share is.
	shown, err := c.shares(t, "-admin", http.MethodGet, ids[0], s.id, nil)
	require.NoError(t, err)
	require.Equal(t, s.folder, shown["share"].(map[string]any)["export_location"])
	shown, err = c.shares(t, "-demo", http.MethodGet, ids[0], s.id, nil)
	require.NoError(t, err)
	require.NotContains(t, shown["share"], "export_location")

	require.NoError(t, servers.Reboot(t.Context(), c.compute(t, "-demo"), ids[0], servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
	c.becomes(t, ids[0], "ACTIVE")
	c.hasShare(t, ids[0], s, "active")
	for i, id := range ids {
		require.True(t, gophercloud.ResponseCodeIs(c.detach(t, id, s), http.StatusConflict), "it runs") // SH-16
		require.Equal(t, 1, c.shareMounts(t))
		c.turnOff(t, id)
		c.hasShare(t, id, s, "inactive")
		require.Equal(t, 1-i, c.shareMounts(t))
	}
	require.NoError(t, c.detach(t, ids[0], s))
	c.settled(t, ids[0])
	_, err = c.shares(t, "-demo", http.MethodGet, ids[0], s.id, nil)
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "%v", err)
	require.Empty(t, c.audit(t).Findings)
	c.turnOn(t, ids[1])
	for _, id := range ids { // SH-19: one that runs with the share, and one that had it
		c.delete(t, id)
	}
	require.Zero(t, c.shareMounts(t))
	c.nothingIsLeft(t)
}

// SH-12, SH-14, SH-20: a share that is not there any more puts the server in ERROR; a hard reboot
// recovers it once it is back.
func TestSH12AShareThatIsLost(t *testing.T) {
	backends(t, local)
	c := ownCloud(t)
	s := c.share(t)
	id := c.createIdle(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	c.turnOff(t, id)
	require.NoError(t, c.attach(t, id, s, "data"))
	c.hasShare(t, id, s, "inactive")
	require.NoError(t, os.Rename(s.folder, s.folder+".lost"))
	require.NoError(t, servers.Start(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	failed := c.becomes(t, id, "ERROR")
	require.NotContains(t, failed.Fault.Message, c.State)
	c.hasShare(t, id, s, "error")
	require.Zero(t, c.shareMounts(t))
	require.Empty(t, c.audit(t).Findings)
	require.NoError(t, os.Rename(s.folder+".lost", s.folder))
	require.NoError(t, servers.Reboot(t.Context(), c.compute(t, "-demo"), id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	c.hasShare(t, id, s, "active")
	c.delete(t, id)
	require.Zero(t, c.shareMounts(t))
	c.nothingIsLeft(t)
}

// Workers die in the middle of all that is done with a server and its share.
func TestKillMatrixShares(t *testing.T) {
	backends(t, local)
	c := ownCloud(t)
	s := c.share(t)
	id := c.createIdle(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	c.turnOff(t, id)
	cut := func(operation string, points []string, do func(t *testing.T), check func(t *testing.T)) {
		for _, point := range cutsOf(operation, points) {
			t.Run(operation+"/"+point, func(t *testing.T) {
				c.arm(t, point)
				do(t)
				c.settled(t, id)
				check(t)
				require.Empty(t, c.audit(t).Findings)
			})
		}
	}
	is := func(status string) func(*testing.T) {
		return func(t *testing.T) { c.hasShare(t, id, s, status) }
	}
	attach := func(t *testing.T) { require.NoError(t, c.attach(t, id, s, "data")) }
	detach := func(t *testing.T) { require.NoError(t, c.detach(t, id, s)) }
	cut("attach", cuts.shareAttach, attach, func(t *testing.T) {
		is("inactive")(t)
		detach(t)
		c.settled(t, id)
	})
	for _, point := range cutsOf("detach", cuts.shareDetach) {
		t.Run("detach/"+point, func(t *testing.T) {
			attach(t)
			is("inactive")(t)
			c.arm(t, point)
			detach(t)
			c.settled(t, id)
			_, err := c.shares(t, "-demo", http.MethodGet, id, s.id, nil)
			require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "%v", err)
			require.Empty(t, c.audit(t).Findings)
		})
	}
	attach(t)
	is("inactive")(t)
	starts, stops := cutsOf("start", cuts.shareStart), cutsOf("stop", cuts.shareStop)
	for i := range max(len(starts), len(stops)) {
		start, stop := starts[i%len(starts)], stops[i%len(stops)]
		t.Run("start/"+start, func(t *testing.T) {
			c.arm(t, start)
			c.turnOn(t, id)
			is("active")(t)
			require.Equal(t, 1, c.shareMounts(t))
			require.Empty(t, c.audit(t).Findings)
		})
		t.Run("stop/"+stop, func(t *testing.T) {
			c.arm(t, stop)
			c.turnOff(t, id)
			is("inactive")(t)
			require.Zero(t, c.shareMounts(t))
			require.Empty(t, c.audit(t).Findings)
		})
	}
	c.delete(t, id)
	for _, point := range cutsOf("delete", cuts.shareDelete) {
		t.Run("delete/"+point, func(t *testing.T) {
			id := c.createIdle(t, encrypted)
			c.becomes(t, id, "ACTIVE")
			c.turnOff(t, id)
			require.NoError(t, c.attach(t, id, s, "data"))
			c.hasShare(t, id, s, "inactive")
			c.turnOn(t, id)
			c.arm(t, point)
			c.delete(t, id)
			require.Eventually(t, func() bool { return c.shareMounts(t) == 0 }, settleTimeout, time.Second)
			c.nothingIsLeft(t)
		})
	}
	c.nothingIsLeft(t)
}
