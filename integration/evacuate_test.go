package integration_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
)

// tryEvacuate asks for an evacuate, as an administrator of the server's project does, and gives the
// answer's status and body.
func (c *testCloud) tryEvacuate(t *testing.T, id, version string, body map[string]any) (int, string) {
	t.Helper()
	return c.tryEvacuateAs(t, "", id, version, body)
}

func (c *testCloud) tryEvacuateAs(t *testing.T, user, id, version string, body map[string]any) (int, string) {
	t.Helper()
	client := *c.compute(t, user)
	client.Microversion = version
	resp, err := client.Post(t.Context(), client.ServiceURL("servers", id, "action"), map[string]any{"evacuate": body}, nil,
		&gophercloud.RequestOpts{OkCodes: []int{200, 400, 409}, KeepResponseBody: true})
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// evacuate asks for an evacuate as soon as the server's host has been silent for long enough.
func (c *testCloud) evacuate(t *testing.T, id, version string) {
	t.Helper()
	await.For(t, "the host of server "+id+" is silent", func() bool {
		code, body := c.tryEvacuate(t, id, version, map[string]any{})
		if code != http.StatusOK {
			require.Contains(t, body, "still reports itself")
		}
		return code == http.StatusOK
	}, c.progress(id))
}

// isSilent waits until a server could be evacuated from a host that is forced down.
func (c *testCloud) isSilent(t *testing.T, h stack.Host, id string) {
	t.Helper()
	await.For(t, fmt.Sprintf("host %d has been silent for long enough", h.Number), func() bool { return c.dryRun(t, "", id, "evacuate").Succeeds }, c.hostProgress(h))
}

// evacuated waits until a host that is back has let go of a server that was evacuated from it.
func (c *testCloud) evacuated(t *testing.T, from stack.Host, id string) {
	t.Helper()
	await.For(t, "the evacuation of server "+id+" is completed", func() bool { return c.evacuations(t, id)[0] == "completed" }, c.hostProgress(from), c.progress(id))
}

// evacuations are the statuses of a server's evacuations, the newest first.
func (c *testCloud) evacuations(t *testing.T, id string) (statuses []string) {
	t.Helper()
	client := *c.compute(t, "")
	client.Microversion = "2.59"
	var out struct {
		Migrations []struct {
			Status string
			Type   string `json:"migration_type"`
			Source string `json:"source_compute"`
		}
	}
	resp, err := client.Get(t.Context(), client.ServiceURL("os-migrations")+"?instance_uuid="+id, &out, nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	for _, m := range out.Migrations {
		if m.Type == "evacuation" {
			statuses = append(statuses, m.Status)
		}
	}
	return statuses
}

// atHost does something with the domain of a server on a host.
func atHost(t *testing.T, h stack.Host, id string, do func(*libvirt.Libvirt, libvirt.Domain)) {
	t.Helper()
	conn := libvirt.NewWithDialer(hypervisor{h})
	require.NoError(t, conn.Connect())
	defer func() { _ = conn.Disconnect() }()
	domain, err := conn.DomainLookupByUUID(libvirt.UUID(uuid.MustParse(id)))
	require.NoError(t, err)
	do(conn, domain)
}

// autostarts reports whether libvirt starts a server with its host.
func autostarts(t *testing.T, h stack.Host, id string) (set bool) {
	t.Helper()
	atHost(t, h, id, func(l *libvirt.Libvirt, domain libvirt.Domain) {
		got, err := l.DomainGetAutostart(domain)
		require.NoError(t, err)
		set = got != 0
	})
	return set
}

// TPM-30, EE-29: a host loses its power, and its servers go to the other one, though workers die
// meanwhile: with new disks under their own keys and a new TPM, of which their user is told. One
// that was off stays off. When the host returns, whatever starts guests there, none runs twice,
// and all that it had of them goes. EE-30: an administrator who may not read the keys is refused, and changes nothing.
func TestEvacuate(t *testing.T) {
	backends(t, openStack, local)
	c := twoHosts(t)
	to, h := c.Host(1), c.Host(2)
	id := c.on(t, h, func() string { return c.create(t, encryptedTPM) })
	plain := c.on(t, h, func() string { return c.createIdle(t, plainFlavor) })
	off := c.on(t, h, func() string { return c.create(t, encryptedTIS) })
	for _, server := range []string{id, plain, off} {
		oneCopyAtMost(t, server)
	}
	c.counts(t, id, 1, 1, 1)
	c.shutOff(t, off)
	keys := c.keysOf(t, id)
	atHost(t, h, plain, func(l *libvirt.Libvirt, domain libvirt.Domain) { require.NoError(t, l.DomainSetAutostart(domain, 1)) })
	await.For(t, "its host takes the autostart away", func() bool { return !autostarts(t, h, plain) }, c.hostProgress(h))

	code, body := c.tryEvacuate(t, id, "2.14", map[string]any{})
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, body, "Compute service of "+hostName(t, h)+" is still in use.")
	c.powerOff(t, h)
	c.isDown(t, h, true)
	code, body = c.tryEvacuate(t, id, "2.14", map[string]any{})
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, body, "fence the host")
	c.requireOn(t, h, id)
	c.forceDown(t, h, true)
	code, _ = c.tryEvacuate(t, id, "2.14", map[string]any{"host": hostName(t, h)})
	require.Equal(t, http.StatusBadRequest, code)

	c.isSilent(t, h, id)
	foretold := c.dryRun(t, "", id, "evacuate")
	require.Equal(t, hostName(t, to), foretold.Host.Name)
	require.Equal(t, "state of the vTPM", foretold.Lost[len(foretold.Lost)-1].What)
	c.requireOn(t, h, id)

	code, body = c.tryEvacuateAs(t, "-admin", id, "2.14", map[string]any{})
	require.Equal(t, http.StatusOK, code, body)
	require.Equal(t, "ACTIVE", c.settled(t, id).Status, "the record has it as it was")
	why := c.refusedBecause(t, id)
	require.Contains(t, why, "check_secrets: ")
	c.namesTheRole(t, why)
	require.Empty(t, c.evacuations(t, id))
	c.requireOn(t, h, id)
	c.hasNothing(t, to, id)
	require.Equal(t, keys, c.keysOf(t, id))

	c.arm(t, "record.LeaveHost@after")
	c.armOn(t, to, "disk.Create@after")
	c.evacuate(t, id, "2.14")
	c.becomes(t, id, "ACTIVE")
	c.arm(t, "record.Evacuate@after")
	c.armOn(t, to, "domain.Start@after")
	c.evacuate(t, plain, "2.29")
	c.becomes(t, plain, "ACTIVE")
	c.evacuate(t, off, "2.68")
	c.becomes(t, off, "SHUTOFF")
	for _, server := range []string{id, plain, off} {
		c.requireOn(t, to, server)
		require.Equal(t, []string{"done"}, c.evacuations(t, server))
	}
	require.Equal(t, keys, c.keysOf(t, id))
	c.counts(t, id, 1, 1, 1)
	require.Equal(t, 1, strings.Count(c.console(t, id, "TG ready", 1), "TG ready"))
	told := c.newestAction(t, id).Message
	require.Contains(t, told, "vTPM of server "+id+" was lost with its host")
	require.NotContains(t, told, hostName(t, h), "users learn no names of hosts")
	require.Empty(t, c.newestAction(t, plain).Message)
	c.startAgain(t, off)
	require.Contains(t, c.console(t, off, "TG ready", 1), "nvcount=1")
	require.NotEmpty(t, c.remainsOnDisk(t, h, id).TPM.state())

	c.powerOn(t, h)
	c.isDown(t, h, true) // until the operator says that it is none any more
	for _, server := range []string{id, plain, off} {
		oneCopy(t, server)
		require.NotEmpty(t, c.remains(t, h, server).Domain)
	}
	c.forceDown(t, h, false)
	for _, server := range []string{id, plain, off} {
		c.hasNothingSoon(t, h, server)
		c.evacuated(t, h, server)
	}
	require.Empty(t, c.audit(t).Findings)
	c.shutOff(t, id)
	c.startAgain(t, id)
	c.counts(t, id, 2, 2, 2)
	for _, server := range []string{id, plain, off} {
		c.delete(t, server)
	}
	c.nothingIsLeft(t)
}

// A host that was said to be fenced and is not has its worker silent and its guest running. Once
// the worker goes on, it stops the guest, before it takes any work. The evacuated server stays
// off, as from 2.95 on, and starts with a new TPM.
func TestAHostReturnsWithAGuestThatWasEvacuated(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	to, h := c.Host(1), c.Host(2)
	id := c.on(t, h, func() string { return c.create(t, encryptedTIS) })
	c.console(t, id, "nvcount=1", 1)
	c.signalWorker(t, h, syscall.SIGSTOP)
	c.forceDown(t, h, true)
	c.evacuate(t, id, "2.95")
	c.becomes(t, id, "SHUTOFF")
	c.requireOn(t, to, id)
	oneCopy(t, id, "on the host that should be fenced")
	require.NotEmpty(t, c.systemMetadata(t, id, "tpm_new"))

	c.signalWorker(t, h, syscall.SIGCONT)
	c.stops(t, h, id)
	require.NotEmpty(t, c.remains(t, h, id).Domain, "it is forced down still, and only stops")
	oneCopyAtMost(t, id)
	c.startAgain(t, id)
	c.counts(t, id, 1, 1, 1)
	require.Empty(t, c.systemMetadata(t, id, "tpm_new"))
	c.forceDown(t, h, false)
	c.hasNothingSoon(t, h, id)
	require.Empty(t, c.audit(t).Findings)
	c.delete(t, id)
	c.nothingIsLeft(t)
}
