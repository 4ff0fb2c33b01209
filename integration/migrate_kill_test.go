package integration_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/stack"
)

// mover is a server that goes to and fro between two hosts, and what its guest counted.
type mover struct {
	*testCloud
	id       string
	from, to stack.Host
	moves    int
	note     string // on its disk
	counted  int    // by its TPM
}

// Whatever dies in a migration, in its decision or in its undo, it settles: the server runs once,
// where the API says, with its disk and its TPM as they are to be, and no host has more than that.
func TestKillMatrixMigrate(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	m := &mover{testCloud: c, from: c.Host(1), to: c.Host(2)}
	m.id = c.on(t, m.from, func() string { return c.create(t, delegated) })
	oneCopyAtMost(t, m.id)
	m.writes(t)
	migrates := troublesOf("migrate", cuts.migrate, partsOfAMove, []string{"domain.Stop", "disk.Receive", "tpm.Receive", "domain.Start"}, 3)
	decides := append(
		named("confirm", troublesOf("confirm of a migration", cuts.confirmThere, partsOfAMove, []string{"disk.Remove.disk_file"}, 1)),
		named("revert", troublesOf("revert of a migration", cuts.revertThere, partsOfAMove, []string{"domain.Stop", "domain.Start"}, 2))...)
	for i := range max(len(migrates), len(decides)) {
		migrate, decide := migrates[i%len(migrates)], decides[i%len(decides)]
		t.Run(migrate+", "+decide, func(t *testing.T) {
			m.migrates(t, migrate)
			kind, trouble, _ := strings.Cut(decide, ": ")
			m.decides(t, kind == "revert", trouble)
		})
	}
	for _, point := range troublesOf("undo of a migration", []string{"domain.Remove.domain", "disk.Remove.disk_file", "tpm.Remove.tpm_state"},
		partsOfAMove, []string{"disk.Remove.disk_file"}, 1) {
		t.Run("undo: "+point, func(t *testing.T) { m.isCancelled(t, point) })
	}
	for _, point := range troublesOf("delete of what both hosts have", nil, partsOfAMove, []string{"disk.Remove.disk_file"}, 0) {
		t.Run("delete: "+point, func(t *testing.T) { m.another(t, point) })
	}
	c.delete(t, m.id)
	for _, h := range []stack.Host{m.from, m.to} {
		c.hasNothing(t, h, m.id)
	}
	c.nothingIsLeft(t)
}

func named(kind string, points []string) (out []string) {
	for _, p := range points {
		out = append(out, kind+": "+p)
	}
	return out
}

// settles waits for the end of an operation. One that a worker died in, which comes back, is done;
// what another part dies in is done or undone.
func (m *mover) settles(t *testing.T, point, done, undone string) (status string) {
	t.Helper()
	s := m.settled(t, m.id)
	allowed := []string{done}
	if strings.Contains(point, " at ") {
		allowed = append(allowed, undone)
	}
	require.Contains(t, allowed, s.Status, "%s; fault: %s", m.newestAction(t, m.id).Message, s.Fault.Message)
	return s.Status
}

// migrates moves the server to the other host. Where that is undone, it is asked for once more.
func (m *mover) migrates(t *testing.T, point string) {
	t.Helper()
	strike := m.meets(t, point, m.from, m.to, m.progress(m.id))
	m.asksToMigrate(t)
	strike()
	if m.settles(t, point, "VERIFY_RESIZE", "ACTIVE") == "ACTIVE" {
		m.isBack(t, m.note, m.counted)
		m.asksToMigrate(t)
		m.becomes(t, m.id, "VERIFY_RESIZE")
	}
	m.requireOn(t, m.to, m.id)
	oneCopy(t, m.id)
	require.Empty(t, m.audit(t).Findings)
}

func (m *mover) asksToMigrate(t *testing.T) {
	t.Helper()
	require.NoError(t, servers.Migrate(t.Context(), m.compute(t, "-admin"), m.id).ExtractErr())
}

// decides confirms or reverts a migration. What the guest did since is there only then.
func (m *mover) decides(t *testing.T, revert bool, point string) {
	t.Helper()
	note, counted := m.note, m.counted
	m.goesOn(t, note, counted)
	m.writes(t)
	ask := func() error { return servers.ConfirmResize(t.Context(), m.compute(t, "-demo"), m.id).ExtractErr() }
	source, destination := m.from, m.to
	if revert {
		ask = func() error { return servers.RevertResize(t.Context(), m.compute(t, "-demo"), m.id).ExtractErr() }
		source, destination = m.to, m.from
	}
	strike := m.meets(t, point, source, destination, m.progress(m.id))
	require.NoError(t, ask())
	strike()
	if m.settles(t, point, "ACTIVE", "VERIFY_RESIZE") == "VERIFY_RESIZE" {
		require.NoError(t, ask())
		m.becomes(t, m.id, "ACTIVE")
	}
	if revert {
		later := m.counted
		m.isBack(t, note, counted)
		require.Less(t, m.counted, later, "its TPM is what it was before the migration")
		return
	}
	m.from, m.to = m.to, m.from
	m.isBack(t, m.note, m.counted)
}

// isCancelled cancels a migration when the guest has started on the other host.
func (m *mover) isCancelled(t *testing.T, point string) {
	t.Helper()
	started := m.hold(t, "domain.Start"+after)
	m.asksToMigrate(t)
	started.waits(t, m.progress(m.id))
	strike := m.meets(t, point, m.from, m.to, m.progress(m.id))
	m.cancelOperation(t, m.id)
	started.release()
	strike()
	m.becomes(t, m.id, "ACTIVE")
	m.isBack(t, m.note, m.counted)
}

// another deletes another server, which was migrated and waits for a decision, and which meets trouble: neither host has anything of it.
func (m *mover) another(t *testing.T, point string) {
	t.Helper()
	id := m.on(t, m.from, func() string { return m.createIdle(t, delegated) })
	m.becomes(t, id, "ACTIVE")
	oneCopyAtMost(t, id)
	m.migrate(t, id)
	m.requireOn(t, m.to, id)
	strike := m.meets(t, point, m.from, m.to, m.progress(id))
	require.NoError(t, servers.Delete(t.Context(), m.compute(t, "-demo"), id).ExtractErr())
	strike()
	m.gone(t, id)
	for _, h := range []stack.Host{m.from, m.to} {
		m.hasNothingSoon(t, h, id)
	}
	m.nothingIsLeftInTime(t)
	oneCopy(t, m.id, "the first one runs on")
}

// isBack requires that the server runs on its host, with what its guest had, and that the other
// one has nothing of it.
func (m *mover) isBack(t *testing.T, note string, counted int) {
	t.Helper()
	m.requireOn(t, m.from, m.id)
	oneCopy(t, m.id)
	m.hasNothingSoon(t, m.to, m.id)
	m.nothingIsLeftInTime(t)
	require.Zero(t, m.remains(t, m.from, m.id).Secrets, "libvirt's secrets are lent for a start")
	m.goesOn(t, note, counted)
}

// goesOn requires that the guest has a note on its disk, and a TPM that counted that far.
func (m *mover) goesOn(t *testing.T, note string, counted int) {
	t.Helper()
	line := m.awake(t)
	require.Contains(t, line.ask("cat note", "TG cat "), strconv.Quote(note))
	m.note, m.counted = note, line.counts()
	require.Greater(t, m.counted, counted)
	require.NoError(t, line.conn.Close())
}

// writes has the guest write another note and count on in its TPM, further than boots do.
func (m *mover) writes(t *testing.T) {
	t.Helper()
	line := m.awake(t)
	m.moves++
	m.note = fmt.Sprintf("note %d", m.moves)
	require.Contains(t, line.ask("write note "+m.note, "TG write "), "err=<nil>")
	for range 8 {
		m.counted = line.counts()
	}
	require.NoError(t, line.conn.Close())
}

// counts has the TPM count on.
func (s *serial) counts() int {
	s.t.Helper()
	text, failure, _ := strings.Cut(s.ask("tpm", "TG tpm nvcount="), " ")
	n, err := strconv.Atoi(text)
	require.NoError(s.t, err)
	require.Equal(s.t, "err=<nil>", failure)
	return n
}

// awake gives the serial line of a guest that answers: one that boots loses what is typed.
func (m *mover) awake(t *testing.T) *serial {
	t.Helper()
	line := m.serial(t, m.id)
	answered := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			_, _ = fmt.Fprintln(line.conn, "ping", n)
			select {
			case <-answered:
				return
			case <-time.After(time.Second):
			}
		}
	}()
	defer close(answered)
	line.expect("TG pong")
	return line
}
