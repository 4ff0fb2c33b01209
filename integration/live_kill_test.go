package integration_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
)

// theTransfer is the moment of a live migration at which a QEMU of the other host waits for the guest.
const theTransfer = "the transfer"

// EE-29: whatever dies in a live migration or in its undo, it settles: the guest runs on, or has
// moved. Its memory, its disk and its TPM are what they were, it ran once at any moment, and the
// other host has nothing of it.
func TestKillMatrixLiveMigrate(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	m := &mover{testCloud: c, from: c.Host(1), to: c.Host(2)}
	m.id = c.on(t, m.from, func() string { return c.create(t, delegated) })
	m.writes(t)
	c.runsOnce(t, m.id)
	parts := append(slices.Clone(partsOfAMove), sourcePower, destinationPower)
	for _, point := range troublesOf("live migrate", cuts.live, parts, []string{"disk.Create", "domain.Migrate", theTransfer, "domain.Arrived"}, 2) {
		t.Run(point, func(t *testing.T) { m.goesLive(t, point) })
	}
	for _, point := range troublesOf("undo of a live migration", cuts.liveUndo, parts, []string{"domain.Departed"}, 1) {
		t.Run("undo: "+point, func(t *testing.T) { m.isAborted(t, point) })
	}
	c.delete(t, m.id)
	for _, h := range []stack.Host{m.from, m.to} {
		c.hasNothing(t, h, m.id)
	}
	c.nothingIsLeft(t)
}

// goesLive migrates the server, which meets trouble.
func (m *mover) goesLive(t *testing.T, point string) {
	t.Helper()
	tick := m.ticks(t, m.id)
	part, in, _ := strings.Cut(point, " at ")
	if in == theTransfer {
		at := m.hold(t, "domain.Migrate"+before)
		require.NoError(t, m.liveMigrate(t, m.id, &m.to))
		at.waits(t, m.progress(m.id))
		at.release()
		await.Every(t, 20*time.Millisecond, theTransfer+" has begun", func() bool { return copies(m.id) == 2 || m.isAt(t, m.to) }, m.progress(m.id))
		someMoment(t, point)
		m.fails(t, part, m.from, m.to, func() {})
	} else {
		strike := m.meets(t, point, m.from, m.to, m.progress(m.id))
		require.NoError(t, m.liveMigrate(t, m.id, &m.to))
		strike()
	}
	m.isWhole(t, point, tick)
}

// isAborted aborts a live migration whose undo meets trouble.
func (m *mover) isAborted(t *testing.T, point string) {
	t.Helper()
	tick := m.ticks(t, m.id)
	begun := m.hold(t, "domain.Migrate"+before)
	require.NoError(t, m.liveMigrate(t, m.id, &m.to))
	begun.waits(t, m.progress(m.id))
	strike := m.meets(t, point, m.from, m.to, m.progress(m.id))
	under := m.migrationsOf(t, m.id)
	require.Len(t, under, 1)
	require.NoError(t, m.abort(t, m.id, under[0]["id"]))
	begun.release()
	strike()
	m.isWhole(t, point, tick)
}

// isAt reports whether the record has the server on a host.
func (m *mover) isAt(t *testing.T, h stack.Host) bool {
	t.Helper()
	name, err := m.hostOf(t, m.id).Name()
	return err == nil && name == hostName(t, h)
}

// isWhole requires that the server runs on one of the hosts, as it did. One whose host lost its power
// is off, and boots with what is on its disk and in its TPM.
func (m *mover) isWhole(t *testing.T, point string, tick ticks) {
	t.Helper()
	s := m.settled(t, m.id)
	t.Logf("it is %s on %s, and was on %s", s.Status, hostName(t, m.hostOf(t, m.id)), hostName(t, m.from))
	if m.isAt(t, m.to) {
		m.from, m.to = m.to, m.from
	}
	if !strings.Contains(point, "power") {
		require.Equal(t, "ACTIVE", s.Status, "%s; fault: %s", m.newestAction(t, m.id).Message, s.Fault.Message)
		m.ticksOn(t, m.id, tick)
	} else if s.Status != "ACTIVE" || copies(m.id) == 0 {
		m.shows(t, m.id, "SHUTOFF", servers.SHUTDOWN) // its host tells soon
		m.startAgain(t, m.id)
	}
	m.isBack(t, m.note, m.counted)
}
