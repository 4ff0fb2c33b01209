package integration_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/deploy/cloud"
	"strongroom/deploy/cloud/cloudtest"
)

// testShare is a share of the demo project.
type testShare struct {
	id       string
	folder   string // where its data are; on OpenStack, a mount of the test's own
	location string // where it is exported
}

// share makes a share, which is deleted when the test ends: by then no server has it.
func (c *testCloud) share(t *testing.T) testShare {
	t.Helper()
	demo, err := c.session("-demo")
	require.NoError(t, err)
	if c.real != nil {
		return c.manilaShare(t, demo)
	}
	got, err := demo.provider.GetAuthResult().(tokens.CreateResult).ExtractProject()
	require.NoError(t, err)
	project := got.ID
	out, err := c.strongroom("--config", c.ConfigFile(), "share", "create", t.Name(), "--project", project)
	require.NoError(t, err, out)
	s := testShare{id: strings.TrimSpace(out)}
	s.folder = filepath.Join(c.State, "shares", s.id, "data")
	s.location = s.folder
	require.DirExists(t, s.folder)
	t.Cleanup(func() {
		out, err := c.strongroom("--config", c.ConfigFile(), "share", "delete", s.id, "--project", project)
		require.NoError(t, err, out)
	})
	return s
}

// manilaShare makes a share of CephFS, and mounts it by a rule of its owner's.
func (c *testCloud) manilaShare(t *testing.T, owner session) testShare {
	t.Helper()
	s := testShare{id: cloudtest.NewShare(t, owner.provider, cloudtest.CephFSShares, "CEPHFS").ID}
	manila := c.manila(t)
	exports, err := shares.ListExportLocations(t.Context(), manila, s.id).Extract()
	require.NoError(t, err)
	s.location = exports[0].Path
	const user = "the-test"
	_, err = shares.GrantAccess(t.Context(), manila, s.id, shares.GrantAccessOpts{AccessType: "cephx", AccessTo: user + s.id, AccessLevel: "rw"}).Extract()
	require.NoError(t, err)
	var own accessRule
	await.For(t, "the rule of the owner of share "+s.id+" is active", func() bool {
		own = c.accessRules(t, s)[0]
		return own.State == "active" && own.Key != ""
	})
	ceph := cloudtest.Ceph{ConfFile: filepath.Join(c.dir, "c", "ceph", "client.conf")}
	s.folder = ceph.Mount(t, s.location, own.To, own.Key)
	return s
}

// manila is the shared file systems service, for the user demo.
func (c *testCloud) manila(t *testing.T) *gophercloud.ServiceClient {
	t.Helper()
	return c.manilaAs(t, "-demo")
}

func (c *testCloud) manilaAs(t *testing.T, user string) *gophercloud.ServiceClient {
	t.Helper()
	s, err := c.session(user)
	require.NoError(t, err)
	client, err := openstack.NewSharedFileSystemV2(s.provider, s.endpoint)
	require.NoError(t, err)
	client.Microversion = "2.45"
	return client
}

// takeRuleAway ends a rule behind strongroom's back: as the share's owner where this Manila has no locks. Where
// it has (cloud.ManilaRootVariable), he sees no key, and can end neither the rule nor the share, but an
// administrator who says so can (SH-08, SH-09).
func (c *testCloud) takeRuleAway(t *testing.T, s testShare, rule string) {
	t.Helper()
	owner := c.manila(t)
	err := shares.RevokeAccess(t.Context(), owner, s.id, shares.RevokeAccessOpts{AccessID: rule}).ExtractErr()
	if os.Getenv(cloud.ManilaRootVariable) == "" {
		require.NoError(t, err)
		return
	}
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusForbidden), "%v", err)
	require.True(t, gophercloud.ResponseCodeIs(shares.Delete(t.Context(), owner, s.id).ExtractErr(), http.StatusForbidden))
	rules := c.accessRulesAs(t, "-demo", s)
	i := slices.IndexFunc(rules, func(r accessRule) bool { return r.ID == rule })
	require.Equal(t, "******", rules[i].Key)
	admin := c.manilaAs(t, "")
	admin.Microversion = "2.82"
	require.NoError(t, shares.RevokeAccess(t.Context(), admin, s.id, unrestricted(rule)).ExtractErr())
}

// unrestricted is the request to end a rule in spite of its locks.
type unrestricted string

// ToRevokeAccessMap is its body.
func (r unrestricted) ToRevokeAccessMap() (map[string]any, error) {
	return map[string]any{"deny_access": map[string]any{"access_id": string(r), "unrestrict": true}}, nil
}

// accessRule is a rule of a share.
type accessRule struct {
	ID       string            `json:"id"`
	To       string            `json:"access_to"`
	State    string            `json:"state"`
	Key      string            `json:"access_key"`
	Metadata map[string]string `json:"metadata"`
}

// accessRules gives a share's rules, the test's own first.
// hasOneRule waits until a share has the test's own rule alone.
func (c *testCloud) hasOneRule(t *testing.T, s testShare) {
	t.Helper()
	await.For(t, "share "+s.id+" has one rule", func() bool { return len(c.accessRules(t, s)) == 1 })
}

func (c *testCloud) accessRules(t *testing.T, s testShare) []accessRule {
	t.Helper()
	return c.accessRulesAs(t, "", s)
}

func (c *testCloud) accessRulesAs(t *testing.T, user string, s testShare) []accessRule {
	t.Helper()
	client := c.manilaAs(t, user)
	var answer struct {
		Rules []accessRule `json:"access_list"`
	}
	response, err := client.Get(t.Context(), client.ServiceURL("share-access-rules")+"?share_id="+s.id, &answer, nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	slices.SortFunc(answer.Rules, func(a, b accessRule) int { return len(a.Metadata) - len(b.Metadata) })
	return answer.Rules
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
	got, err := c.shares(t, "-demo", http.MethodPost, server, "", map[string]any{"share": map[string]any{"share_id": s.id, "tag": tag}})
	if err == nil {
		require.Equal(t, map[string]any{"share": map[string]any{"share_id": s.id, "status": "attaching", "tag": tag}}, got) // SH-03
	}
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

// hasNoShare requires that a server's share is not one of its any more, once no operation is at work.
func (c *testCloud) hasNoShare(t *testing.T, server string, s testShare) {
	t.Helper()
	c.settled(t, server)
	_, err := c.shares(t, "-demo", http.MethodGet, server, s.id, nil)
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "%v", err)
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

// SH-01, SH-03, SH-10, SH-11, SH-16, SH-17, SH-18, SH-23, SH-33, SH-34, SH-35, SH-38: a guest mounts its share by the tag and
// writes a file that is in the share; another guest of the host finds the share in its metadata by itself, mounts it, and
// reads the file; mounted read-only, as the guide has it in fstab, it writes nothing, while the first one does; how fast
// it is beside the host's own is said; the last one to stop takes the mount along.
func TestSH10AGuestMountsItsShare(t *testing.T) {
	backends(t, local, openStack)
	c := shareCloud(t)
	s := c.share(t)
	require.NoError(t, os.WriteFile(filepath.Join(s.folder, "letter"), []byte("from outside"), 0o644))
	ids := []string{c.create(t, encrypted), c.create(t, encrypted, driven)}
	for _, id := range ids {
		c.becomes(t, id, "ACTIVE")
		require.True(t, gophercloud.ResponseCodeIs(c.attach(t, id, s, "data"), http.StatusConflict), "it runs") // SH-04
		c.turnOff(t, id)
		require.NoError(t, c.attach(t, id, s, "data"))
		c.hasShare(t, id, s, "inactive")
		require.True(t, gophercloud.ResponseCodeIs(c.attach(t, id, s, "other"), http.StatusConflict), "it has it") // SH-07
	}
	require.Zero(t, c.shareMounts(t))
	var lines []*serial
	for _, id := range ids {
		c.turnOn(t, id)
		c.hasShare(t, id, s, "active")
		require.Equal(t, 1, c.shareMounts(t))
		line := c.serial(t, id)
		line.expect("TG tick=")
		lines = append(lines, line)
	}
	first, second := lines[0], lines[1]
	require.Contains(t, first.ask("share data", "TG share "), "err=<nil>")
	require.Contains(t, first.ask("cat /share/letter", "TG cat "), "from outside")
	require.Contains(t, first.ask("write /share/note by the first", "TG write "), "err=<nil>")
	text, err := os.ReadFile(filepath.Join(s.folder, "note"))
	require.NoError(t, err)
	require.Equal(t, "by the first", string(text))
	require.Contains(t, second.ask("shares", "TG shares "), "tags=[data] err=<nil>")
	require.Contains(t, second.ask("cat /shares/data/note", "TG cat "), "by the first")
	require.Contains(t, second.ask("share data "+fstabOptions(t), "TG share "), "err=<nil>")
	require.Contains(t, second.ask("cat /share/note", "TG cat "), "by the first")
	require.Contains(t, second.ask("write /share/note by the second", "TG write "), "read-only file system")
	require.Contains(t, first.ask("write /share/answer it does", "TG write "), "err=<nil>")
	require.Contains(t, second.ask("cat /share/answer", "TG cat "), "it does")
	c.throughput(t, s, first)
	for _, line := range lines {
		require.NoError(t, line.conn.Close())
	}
	require.Empty(t, c.audit(t).Findings)

	// SH-01, SH-02, SH-25: the administrator alone reads where the share is, and in no list.
	seen := map[string]any{"share_id": s.id, "status": "active", "tag": "data"}
	for _, user := range []string{"-demo", "-admin"} {
		all, err := c.shares(t, user, http.MethodGet, ids[0], "", nil)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"shares": []any{seen}}, all, user)
	}
	shown, err := c.shares(t, "-admin", http.MethodGet, ids[0], s.id, nil)
	require.NoError(t, err)
	require.Equal(t, s.location, shown["share"].(map[string]any)["export_location"])
	require.Contains(t, shown["share"], "uuid")
	shown, err = c.shares(t, "-demo", http.MethodGet, ids[0], s.id, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"share": seen}, shown)

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
	c.hasNoShare(t, ids[0], s)
	require.Empty(t, c.audit(t).Findings)
	c.turnOn(t, ids[1])
	for _, id := range ids { // SH-19: one that runs with the share, and one that had it
		c.delete(t, id)
	}
	require.Zero(t, c.shareMounts(t))
	c.nothingIsLeft(t)
}

// fstabOptions are those with which the guide has a guest mount a share in its fstab: read-only.
func fstabOptions(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/shares.md")
	require.NoError(t, err)
	_, options, found := strings.Cut(string(text), "\ndocuments /mnt virtiofs ")
	require.True(t, found)
	options, _, _ = strings.Cut(options, " ")
	require.Contains(t, strings.Split(options, ","), "ro")
	return options
}

// throughput has a guest write and read a file of its share, /share, and the test another where the share is mounted on this machine, and
// says how fast each was (SH-38). integration/bench has figures: these are of a busy machine.
func (c *testCloud) throughput(t *testing.T, s testShare, guest *serial) {
	t.Helper()
	const mib = 32
	took := func(do func()) float64 {
		begin := time.Now()
		do()
		return mib / time.Since(begin).Seconds()
	}
	block := make([]byte, mib<<20)
	inGuest, onHost := filepath.Join(s.folder, "guest"), filepath.Join(s.folder, "host")
	guestWrites := took(func() {
		require.Contains(t, guest.ask(fmt.Sprintf("zero /share/guest %d", mib), "TG zero "), "err=<nil>")
	})
	hostWrites := took(func() {
		f, err := os.Create(onHost)
		require.NoError(t, err)
		_, err = f.Write(block)
		require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
	})
	guestReads := took(func() { require.Contains(t, guest.ask("read /share/host", "TG read "), "err=<nil>") })
	hostReads := took(func() {
		text, err := os.ReadFile(inGuest)
		require.NoError(t, err)
		require.Equal(t, block, text)
	})
	t.Logf("MiB/s in the guest and where the share is mounted: writes %.0f and %.0f (%.2f), reads %.0f and %.0f (%.2f)",
		guestWrites, hostWrites, guestWrites/hostWrites, guestReads, hostReads, guestReads/hostReads)
}

// SH-12, SH-14, SH-20: a share that is not there any more puts the server in ERROR; a hard reboot
// recovers it once it is back.
func TestSH12AShareThatIsLost(t *testing.T) {
	backends(t, local) // it takes away the folder of a local share
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

// SH-08, SH-10, SH-18, SH-25, SH-30, decision 18: on Manila and CephFS the host has a rule of its own, which a start
// makes anew that was taken away; the guest writes into the share and the owner reads it. Neither key nor
// export location are where they should not be, and a delete leaves nothing but what the owner made.
func TestSH18AShareOfCephFS(t *testing.T) {
	backends(t, openStack)
	c := shareCloud(t)
	s := c.share(t)
	id := c.create(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	c.turnOff(t, id)
	require.NoError(t, c.attach(t, id, s, "data"))
	c.hasShare(t, id, s, "inactive")
	rules := c.accessRules(t, s)
	require.Len(t, rules, 2)
	require.Contains(t, rules[1].Metadata, "strongroom-server-"+id)
	known := canaries{}
	known.add("the host's key", []byte(rules[1].Key))
	_, exported, _ := strings.Cut(s.location, ":/")
	known.add("where the share is exported", []byte(exported))

	c.takeRuleAway(t, s, rules[1].ID)
	c.hasOneRule(t, s)
	watch := watchProcesses(t)
	c.turnOn(t, id)
	seen := watch()
	c.hasShare(t, id, s, "active")
	require.Equal(t, 1, c.shareMounts(t))
	rules = c.accessRules(t, s)
	require.Len(t, rules, 2)
	known.add("the host's second key", []byte(rules[1].Key))
	line := c.serial(t, id)
	line.expect("TG tick=")
	require.Contains(t, line.ask("share data", "TG share "), "err=<nil>")
	require.Contains(t, line.ask("write /share/note by the guest", "TG write "), "err=<nil>")
	require.NoError(t, line.conn.Close())
	text, err := os.ReadFile(filepath.Join(s.folder, "note"))
	require.NoError(t, err)
	require.Equal(t, "by the guest", string(text))
	require.Empty(t, c.audit(t).Findings)

	shown, err := c.shares(t, "-admin", http.MethodGet, id, s.id, nil)
	require.NoError(t, err)
	require.Equal(t, s.location, shown["share"].(map[string]any)["export_location"])
	shown, err = c.shares(t, "-demo", http.MethodGet, id, s.id, nil)
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(shown), exported)

	c.delete(t, id)
	require.Zero(t, c.shareMounts(t))
	require.Len(t, c.accessRules(t, s), 1, "the test's own")
	c.nothingIsLeft(t)
	require.Contains(t, string(seen), filepath.Join(c.State, "mounts", s.id), "ceph-fuse is among the processes that were seen")
	require.NotContains(t, string(seen), rules[1].Key, invariant+"arguments and environments of processes")
	nowhere := func(text []byte, where string) {
		t.Helper()
		require.Empty(t, known.in(text), invariant+where)
	}
	search(t, c, id, nowhere, "")
}

// lookedUntil has a server's share looked at, as one that the look before missed, until it has a status. Where strongroom's own user has no
// role, it looks with the token of a request.
func (c *testCloud) lookedUntil(t *testing.T, server string, s testShare, status string) {
	t.Helper()
	db := c.database(t)
	await.For(t, "share "+s.id+" of server "+server+" is "+status, func() bool {
		for _, due := range []string{
			"UPDATE server_shares SET look_at = '2000-01-01', missed_at = coalesce(missed_at, now()) WHERE server_id = $1",
			"UPDATE share_refusals r SET offers = 0, offer_at = now() FROM servers s WHERE s.id = $1 AND s.project_id = r.project_id",
		} {
			_, err := db.Exec(t.Context(), due, server)
			require.NoError(t, err)
		}
		got, err := c.shares(t, "-demo", http.MethodGet, server, s.id, nil)
		require.NoError(t, err)
		return got["share"].(map[string]any)["status"] == status
	}, c.progress(server))
}

// SH-09, SH-12, SH-14: this Manila has no locks. A rule that its owner takes away under a running server puts the
// share in error, and the guest runs on; a hard reboot mends it. Of a share that is gone the next start says so.
func TestSH09AShareThatIsTakenAway(t *testing.T) {
	backends(t, openStack)
	c := shareCloud(t)
	s := c.share(t)
	id := c.createIdle(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	c.turnOff(t, id)
	require.NoError(t, c.attach(t, id, s, "data"))
	c.hasShare(t, id, s, "inactive")
	c.turnOn(t, id)
	c.hasShare(t, id, s, "active")
	manila := c.manila(t)
	rules := c.accessRules(t, s)
	require.Len(t, rules, 2)
	require.NoError(t, shares.RevokeAccess(t.Context(), manila, s.id, shares.RevokeAccessOpts{AccessID: rules[1].ID}).ExtractErr())
	c.lookedUntil(t, id, s, "error")
	require.Equal(t, "ACTIVE", c.settled(t, id).Status, "the guest runs on")
	reboot := func() {
		require.NoError(t, servers.Reboot(t.Context(), c.compute(t, "-demo"), id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
	}
	reboot()
	c.becomes(t, id, "ACTIVE")
	c.hasShare(t, id, s, "active")
	require.Len(t, c.accessRules(t, s), 2)

	require.NoError(t, shares.Delete(t.Context(), manila, s.id).ExtractErr())
	c.lookedUntil(t, id, s, "error")
	require.Equal(t, "ACTIVE", c.settled(t, id).Status)
	reboot()
	failed := c.becomes(t, id, "ERROR")
	require.Contains(t, failed.Fault.Message, "Share "+s.id+" could not be found")
	c.hasShare(t, id, s, "error")
	c.delete(t, id)
	require.Zero(t, c.shareMounts(t))
	c.nothingIsLeft(t)
}

// Workers die in the middle of all that is done with a server and its share.
func TestKillMatrixShares(t *testing.T) {
	backends(t, local, openStack)
	c := shareCloud(t)
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
			c.hasNoShare(t, id, s)
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
			c.isUnmounted(t)
			c.nothingIsLeft(t)
		})
	}
	c.nothingIsLeft(t)
}
