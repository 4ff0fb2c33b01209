package integration_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/stack"
)

// evacuatedAtOnce is how many servers lose their host together: that a host is down shows after a minute.
const evacuatedAtOnce = 5

// evacuees are servers of a host that is down.
type evacuees struct {
	*testCloud
	from, to stack.Host
}

// EE-29: whatever dies in an evacuate, the new host or the control plane, or although the old host
// comes back in the midst of it, it settles: the server runs once, on the new host, or it is as it
// was and can be evacuated. Its disk and its vTPM begin anew, whole. Nothing of it is left on the old host when
// that returns. Two hosts are enough: a host that returns asks about what left itself, wherever that went (activities/record has three),
// and which of several hosts takes a server is a matter of its claim (activities/placement).
func TestKillMatrixEvacuate(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	e := evacuees{testCloud: c, from: c.Host(2), to: c.Host(1)}
	points := troublesOf("evacuate", cuts.evacuate, []string{control, "temporal", gateway, destinationWorker, destinationLibvirt, destinationPower, sourceReturns},
		[]string{"disk.Create", "domain.Start"}, 2)
	// A host that comes back must fall silent again, which takes a minute: these come last. It also finds its other guests gone, whose
	// servers are off then: there is one server on it.
	returns := func(point string) bool { return strings.Contains(point, sourceReturns) }
	for some := range slices.Chunk(slices.DeleteFunc(slices.Clone(points), returns), evacuatedAtOnce) {
		e.lose(t, some)
	}
	for _, point := range points {
		if returns(point) {
			e.lose(t, []string{point})
		}
	}
	c.nothingIsLeft(t)
}

// lose evacuates a server for each trouble from a host that has lost its power.
func (e evacuees) lose(t *testing.T, points []string) {
	t.Helper()
	var ids, gone []string
	var guests []*mover
	for range points {
		m := &mover{testCloud: e.testCloud, id: e.on(t, e.from, func() string { return e.create(t, encryptedTIS) })}
		m.writes(t)
		ids, guests = append(ids, m.id), append(guests, m)
	}
	oneCopyAtMost(t, ids...)
	e.powerOff(t, e.from)
	e.forceDown(t, e.from, true)
	for i, point := range points {
		t.Run(point, func(t *testing.T) {
			gone = append(gone, ids[i])
			e.leaves(t, ids[i], point)
			guests[i].beganAnew(t)
		})
	}
	e.powerOn(t, e.from)
	e.forceDown(t, e.from, false)
	for _, id := range gone {
		e.requireOn(t, e.to, id)
		e.hasNothingSoon(t, e.from, id)
		e.evacuated(t, e.from, id)
	}
	e.nothingIsLeftInTime(t)
	for _, id := range ids {
		e.delete(t, id)
		e.hasNothing(t, e.to, id)
	}
}

// leaves evacuates a server, which meets trouble. Where that undoes it, it is asked for once more.
func (e evacuees) leaves(t *testing.T, id, point string) {
	t.Helper()
	e.powerOff(t, e.from) // it may have come back
	strike := e.meets(t, point, e.from, e.to, e.progress(id))
	e.evacuate(t, id, "2.29")
	strike()
	s := e.settled(t, id)
	t.Logf("it is %s on %s", s.Status, hostName(t, e.hostOf(t, id)))
	if e.hostOf(t, id) == e.from {
		require.Contains(t, point, " at ", "a worker that comes back completes the evacuate; fault: %s", s.Fault.Message)
		require.Zero(t, copies(id))
		e.powerOff(t, e.from)
		e.evacuate(t, id, "2.29")
		s = e.settled(t, id)
	}
	if strings.Contains(point, destinationPower) && copies(id) == 0 { // after it had started
		e.shows(t, id, "SHUTOFF", servers.SHUTDOWN)
		e.startAgain(t, id)
	} else {
		require.Equal(t, "ACTIVE", s.Status, "%s; fault: %s", e.newestAction(t, id).Message, s.Fault.Message)
	}
	e.requireOn(t, e.to, id)
	oneCopy(t, id)
	require.Zero(t, e.remains(t, e.to, id).Secrets, "libvirt's secrets are lent for a start")
}

// beganAnew requires that the guest answers with a disk that has no note, and a TPM that counts from the
// beginning: neither is what was lost, nor a part of it.
func (m *mover) beganAnew(t *testing.T) {
	t.Helper()
	line := m.awake(t)
	require.Contains(t, line.ask("cat note", "TG cat "), "no such file")
	require.Less(t, line.counts(), m.counted)
	require.NoError(t, line.conn.Close())
}
