package integration_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/await"
	"strongroom/deploy/dev/process"
	"strongroom/deploy/dev/stack"
)

// The link between the hosts can be cut, which leaves both up. Ctrl-C leaves nothing of a second
// host, and the next start goes on with it, also with what a killed one left.
func TestHostsOfOneMachine(t *testing.T) {
	backends(t, local) // it is about strongroom dev
	c := twoHosts(t)
	h := c.Host(2)
	var settings struct {
		Host struct {
			Agent string `yaml:"agent_listen"`
		}
	}
	readYAML(t, h.ConfigFile(), &settings)
	agent := func(within time.Duration) bool {
		conn, err := net.DialTimeout("tcp", settings.Host.Agent, within)
		return err == nil && conn.Close() == nil
	}
	require.True(t, agent(time.Minute))
	c.link(t, h, false)
	require.False(t, agent(3*time.Second))
	id := c.on(t, h, func() string { return c.createIdle(t, encryptedTIS) })
	c.link(t, h, true)
	await.For(t, "the agent of host 2 is reached again", func() bool { return agent(time.Second) }, c.hostProgress(h))

	require.NoError(t, c.cmd.Process.Kill())
	await.For(t, "the ports of a stack that was killed are free", func() bool { return c.PortsAreFree() == nil })
	require.NoError(t, os.Remove(c.ReadyFile()))
	oneCopy(t, id, "the guest goes on")
	require.NoError(t, c.launch())
	c.isDown(t, h, false)
	require.True(t, c.remains(t, h, id).Running)
	c.stop()
	requireNoProcessIn(t, c.State)
	require.Zero(t, copies(id))
	links, err := net.Interfaces()
	require.NoError(t, err)
	for _, l := range links {
		require.NotContains(t, l.Name, h.Network())
	}
	require.NoError(t, c.launch())
	c.isDown(t, h, false)
	await.For(t, "server "+id+" is SHUTOFF", func() bool { return c.settled(t, id).Status == "SHUTOFF" }, c.hostProgress(h))
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// TPM-25: a server that was shelved on one host is unshelved on another, with its disks and
// the state of its TPM as they were: bit for bit, until its guest starts, although the worker
// dies that lays it down.
func TestUnshelveOnAnotherHost(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	from, to := c.Host(1), c.Host(2)
	id := c.on(t, from, func() string { return c.create(t, encryptedTPM) })
	oneCopyAtMost(t, id)
	c.console(t, id, "nvcount=1", 1)
	for boots := 2; boots <= 3; boots++ {
		line := c.serial(t, id)
		line.expect("TG tick=")
		require.Contains(t, line.ask("write note kept", "TG write "), "err=<nil>")
		require.NoError(t, line.conn.Close())
		c.shutOff(t, id)
		was := c.remains(t, from, id)
		require.NotEmpty(t, was.TPM.state())
		require.Zero(t, was.Secrets)

		c.shelve(t, id)
		c.hasNothing(t, from, id)
		c.hasNothing(t, to, id)
		c.armOn(t, to, "tpm.Restore@after") // the worker there dies, and the next one goes on
		start := c.holdOn(t, to, "domain.Start@before")
		c.unshelveTo(t, to, id)
		start.waits(t, c.progress(id))
		require.Equal(t, was.TPM.state(), c.remains(t, to, id).TPM.state())
		start.release()
		c.becomes(t, id, "ACTIVE")
		c.requireOn(t, to, id)
		c.hasNothing(t, from, id)
		log := c.console(t, id, "TG ready", 1)
		require.Contains(t, log, "rootdisk boots="+digit(boots))
		require.Contains(t, log, "nvcount="+digit(boots))
		line = c.serial(t, id)
		require.Contains(t, line.ask("cat /root/note", "TG cat "), "kept")
		require.NoError(t, line.conn.Close())
		require.Empty(t, c.audit(t).Findings)
		from, to = to, from // and back
	}
	c.delete(t, id)
	c.hasNothing(t, from, id)
	c.nothingIsLeft(t)
}

func digit(n int) string { return string(rune('0' + n)) }

// TPM-31, TPM-33: a server is deleted while its host is down, also when nobody knows that yet.
// Its keys go once the host is forced down, and what the host has of it when it returns.
func TestDeleteWhileItsHostIsDown(t *testing.T) {
	backends(t, openStack, local)
	c := twoHosts(t)
	h := c.Host(2)
	unnoticed := c.on(t, h, func() string { return c.createIdle(t, encryptedTIS) })
	known := c.on(t, h, func() string { return c.createIdle(t, encryptedTIS) })
	c.powerOff(t, h)
	c.delete(t, unnoticed)
	require.Len(t, c.keysOf(t, unnoticed), 2, "they wait for what they open")

	c.forceDown(t, h, true)
	c.delete(t, known)
	require.Empty(t, c.keysOf(t, known), "the request's credential is good for them")
	for _, id := range []string{unnoticed, known} {
		c.keysGo(t, id)
		has := c.remainsOnDisk(t, h, id)
		require.NotEmpty(t, has.Disks)
		require.NotEmpty(t, has.TPM.state())
	}
	c.powerOn(t, h)
	c.forceDown(t, h, false)
	for _, id := range []string{unnoticed, known} {
		c.hasNothingSoon(t, h, id)
	}
	c.nothingIsLeftInTime(t)
}

// TPM-32: a shelved server that is still on its host, which is down, is deleted: the object with
// the state of its TPM goes, and the images and keys.
func TestDeleteOfAShelvedServerWhileItsHostIsDown(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	h := c.Host(2)
	c.keepsShelvedServers(t)
	id := c.on(t, h, func() string { return c.createIdle(t, encryptedTIS) })
	require.NoError(t, servers.Shelve(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	s := c.becomes(t, id, "SHELVED")
	require.NotEmpty(t, c.objectsOf(t, s))
	c.powerOff(t, h)
	c.forceDown(t, h, true)
	c.delete(t, id)
	c.keysGo(t, id)
	await.For(t, "what was kept of server "+id+" is gone", func() bool { return len(c.objectsOf(t, s)) == 0 && len(c.keptAs(t, id)) == 0 })
	require.NotEmpty(t, c.remainsOnDisk(t, h, id).TPM.state())
	c.powerOn(t, h)
	c.forceDown(t, h, false)
	c.hasNothingSoon(t, h, id)
	c.nothingIsLeftInTime(t)
}

// keysGo waits until a server has no key any more.
func (c *testCloud) keysGo(t *testing.T, id string) {
	t.Helper()
	var left []string
	await.For(t, "no key of server "+id+" is left", func() bool {
		listed(t, c.compute(t, "-demo"), servers.ListOpts{}) // a request brings a credential, where a key waits for one
		left = c.keysOf(t, id)
		return len(left) == 0
	}, await.Witness{Name: "keys", Look: func() string { return strings.Join(left, ", ") }})
}

// TPM-33: the host never returns and is forgotten: no key is left, and nothing that the audit
// would tell of. Should it return after all, it is a host again, and the audit tells what it has.
func TestDeleteWhenItsHostNeverReturns(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	h := c.Host(2)
	id := c.on(t, h, func() string { return c.createIdle(t, encryptedTIS) })
	c.powerOff(t, h)
	c.forceDown(t, h, true)
	c.delete(t, id)
	c.keysGo(t, id)
	out, err := c.strongroom("--config", c.ConfigFile(), "host", "forget", hostName(t, h), "--yes")
	require.NoError(t, err, out)
	require.Contains(t, out, "is forgotten")
	c.nothingIsLeft(t)

	c.enrollAgain(t, h)
	c.powerOn(t, h)
	c.forceDown(t, h, false)
	var found []compute.Finding
	await.For(t, "the audit finds what the host has", func() bool {
		found = c.audit(t).Findings // asks the host once it has reported itself
		return len(found) > 0
	}, c.hostProgress(h))
	for _, f := range found {
		require.Equal(t, compute.Unowned, f.What, "%v", f)
		require.Equal(t, c.hostService(t, h).ID, f.Place, "%v", f)
	}
	c.erase(t, h, id)
	c.nothingIsLeft(t)
	again := c.on(t, h, func() string { return c.createIdle(t, encryptedTIS) })
	c.delete(t, again)
	c.nothingIsLeft(t)
}

// enrollAgain gets a host that was forgotten, or locked out, a new certificate.
func (c *testCloud) enrollAgain(t *testing.T, h stack.Host) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	token, err := exec.CommandContext(ctx, c.binary, "--config", c.ConfigFile(), "host", "token", hostName(t, h)).Output()
	require.NoError(t, err)
	enroll := exec.CommandContext(ctx, c.binary, "--config", h.ConfigFile(), "host", "enroll", "--replace")
	enroll.Stdin = bytes.NewReader(token)
	out, err := enroll.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// erase removes a server's things from a host by hand.
func (c *testCloud) erase(t *testing.T, h stack.Host, id string) {
	t.Helper()
	conn := libvirt.NewWithDialer(hypervisor{h})
	require.NoError(t, conn.Connect())
	defer func() { _ = conn.Disconnect() }()
	domain, err := conn.DomainLookupByUUID(libvirt.UUID(uuid.MustParse(id)))
	require.NoError(t, err)
	require.NoError(t, conn.DomainUndefineFlags(domain, libvirt.DomainUndefineTpm))
	require.NoError(t, os.RemoveAll(filepath.Join(h.Instances(), id)))
}

// A host dies, or falls silent with the guest running, in the middle of an unshelve that is
// then cancelled. Nobody knows whether the guest runs there: the server is unshelved nowhere
// else until the host has answered that it does not.
func TestUnshelveWhoseHostFallsSilent(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	home, h := c.Host(1), c.Host(2)
	id := c.on(t, home, func() string { return c.create(t, encryptedTIS) })
	oneCopyAtMost(t, id)
	c.console(t, id, "nvcount=1", 1)
	for i, how := range []struct {
		name          string
		fall, returns func(t *testing.T)
		runs          int
	}{
		{"dead", func(t *testing.T) { c.powerOff(t, h) }, func(t *testing.T) { c.powerOn(t, h) }, 0},
		{"silent", func(t *testing.T) { c.signalWorker(t, h, syscall.SIGSTOP) }, func(t *testing.T) { c.signalWorker(t, h, syscall.SIGCONT) }, 1},
	} {
		t.Run(how.name, func(t *testing.T) {
			c.shelve(t, id)
			started := c.holdOn(t, h, "domain.Start@after")
			c.unshelveTo(t, h, id)
			started.waits(t, c.progress(id))
			oneCopy(t, id)
			how.fall(t)
			started.release()
			c.forceDown(t, h, true)
			c.cancelOperation(t, id)
			c.becomes(t, id, "SHELVED_OFFLOADED")
			require.Equal(t, how.runs, copies(id))

			require.ErrorContains(t, c.tryUnshelve(t, id), "may still run on a host that does not answer")
			c.becomes(t, id, "SHELVED_OFFLOADED")
			require.Equal(t, how.runs, copies(id))

			how.returns(t)
			c.forceDown(t, h, false)
			c.hasNothingSoon(t, h, id)
			require.Zero(t, copies(id))
			c.nothingIsLeftInTime(t)
			c.unshelveTo(t, home, id)
			c.becomes(t, id, "ACTIVE")
			log := c.console(t, id, "TG ready", 1)
			require.Contains(t, log, "nvcount="+digit(i+2), "what ran on the other host is undone")
			require.Contains(t, log, "rootdisk boots="+digit(i+2))
			c.nothingIsLeft(t)
		})
	}
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// signalWorker sends a signal to a host's worker: SIGSTOP silences the host, whose guests go on.
func (c *testCloud) signalWorker(t *testing.T, h stack.Host, sig syscall.Signal) {
	t.Helper()
	pid, running := process.Named(c.PIDFile(h.Part("host")))
	require.True(t, running)
	require.NoError(t, syscall.Kill(pid, sig))
	if sig == syscall.SIGSTOP {
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	}
}

// A host dies when a server that was shelved is leaving it. The server is unshelved on the
// other; when the first returns, what it has of the server goes, and the server runs on.
func TestHostDiesWhenAServerLeavesIt(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	home, h := c.Host(1), c.Host(2)
	id := c.on(t, h, func() string { return c.create(t, encryptedTIS) })
	oneCopyAtMost(t, id)
	c.console(t, id, "nvcount=1", 1)
	leaving := c.holdOn(t, h, "domain.Remove.domain@before")
	require.NoError(t, servers.Shelve(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	leaving.waits(t, c.progress(id))
	c.powerOff(t, h)
	leaving.release()
	c.forceDown(t, h, true)
	c.becomes(t, id, "SHELVED_OFFLOADED")
	require.NotEmpty(t, c.remainsOnDisk(t, h, id).Disks)
	c.unshelveTo(t, home, id)
	c.becomes(t, id, "ACTIVE")
	c.requireOn(t, home, id)
	require.Contains(t, c.console(t, id, "TG ready", 1), "nvcount=2")

	c.powerOn(t, h)
	c.forceDown(t, h, false)
	c.hasNothingSoon(t, h, id)
	c.nothingIsLeftInTime(t)
	oneCopy(t, id)
	c.shutOff(t, id)
	c.startAgain(t, id)
	require.Contains(t, c.console(t, id, "TG ready", 2), "nvcount=3", "its own disks and TPM are untouched")
	c.delete(t, id)
	c.nothingIsLeft(t)
}
