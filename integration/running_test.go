package integration_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// machines gives the process ids of the QEMUs of each server, on whatever host: those that run it,
// and one that waits for a guest from another host.
func machines() map[string][]int {
	all := map[string][]int{}
	entries, _ := os.ReadDir("/proc") // those that end meanwhile count as ended
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		name, _ := os.ReadFile("/proc/" + e.Name() + "/comm") // costs less, and there are many
		if !strings.HasPrefix(string(name), "qemu-system") {
			continue
		}
		arguments, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if _, after, ok := strings.Cut(string(arguments), "\x00-uuid\x00"); ok {
			id, _, _ := strings.Cut(after, "\x00")
			all[id] = append(all[id], pid)
		}
	}
	return all
}

// copies counts the QEMUs of a server, on whatever host.
func copies(id string) int { return len(machines()[id]) }

// oneCopy requires that one QEMU of a server runs, on whatever host.
func oneCopy(t *testing.T, id string, message ...any) {
	t.Helper()
	n := copies(id)
	require.LessOrEqual(t, n, 1, invariant+"running copies of server %s", id)
	require.Equal(t, 1, n, message...)
}

// invariant begins what a test says that has seen what may never happen: such a test has no second try (deploy/with).
const invariant = "INVARIANT: "

// oneCopyAtMost looks until the test ends, and fails it if one of the servers ever has two QEMUs.
func oneCopyAtMost(t *testing.T, ids ...string) {
	t.Helper()
	stop, most := make(chan struct{}), make(chan map[string]int)
	seen := map[string]int{}
	look := func() {
		now := machines()
		for _, id := range ids {
			seen[id] = max(seen[id], len(now[id]))
		}
	}
	look() // at once: they may be stopped right after
	go func() {
		for {
			select {
			case <-stop:
				most <- seen
				return
			case <-time.After(50 * time.Millisecond):
				look()
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		for id, n := range <-most {
			require.LessOrEqual(t, n, 1, invariant+"running copies of server %s at once", id)
			require.Equal(t, 1, n, "server %s never ran", id)
		}
	})
}

// Whether a QEMU runs its guest shows in the CPU time that its virtual CPUs take: libvirt may be
// dead, and QEMU's monitor is libvirt's. One that stands still takes none; to be started and to load
// a guest takes 0.6 ms all in all (QEMU 7.2, TCG); the idle guest takes 5 ms each second.
const (
	bringUp = 2 * time.Millisecond
	atWork  = time.Millisecond
)

// runners are the QEMUs that ran the guest of a server, in that order.
type runners struct {
	times func() map[int]time.Duration // CPU time that virtual CPUs have taken, by process
	noted map[int]time.Duration        // of that, what was seen before
	order []int
}

func (r *runners) since(pid int) time.Duration { return max(r.noted[pid], bringUp) }

// look notes who has run since the last look.
func (r *runners) look() {
	now := r.times()
	var moved []int
	for pid, taken := range now {
		if taken-r.since(pid) >= atWork {
			moved = append(moved, pid)
			r.noted[pid] = taken
		}
	}
	slices.Sort(moved)
	if n := len(r.order); n > 0 && slices.Contains(moved, r.order[n-1]) { // it may have run on for a moment
		moved = slices.DeleteFunc(moved, func(pid int) bool { return pid == r.order[n-1] })
	}
	if len(moved) == 0 {
		return
	}
	r.order = append(r.order, moved...)
	for pid, taken := range r.times() { // what the others did before counts no more
		r.noted[pid] = taken
	}
}

// again gives a QEMU that ran the guest, also after another one did; 0: there is none.
func (r *runners) again() int {
	for i, pid := range r.order {
		if slices.Contains(r.order[:i], pid) {
			return pid
		}
	}
	return 0
}

// runsOnce looks until the test ends, and fails it if two QEMUs of a server ever run its guest, on
// whatever hosts, side by side or in turn: once another one runs it, none that ran it does so again.
func (c *testCloud) runsOnce(t *testing.T, id string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan *runners)
	go func() {
		r := runnersOf(id)
		for ctx.Err() == nil {
			r.look()
			time.Sleep(100 * time.Millisecond)
		}
		ended <- r
	}()
	t.Cleanup(func() {
		stop()
		r := <-ended
		require.NotEmpty(t, r.order, "its guest never ran")
		require.Zero(t, r.again(), invariant+"a QEMU ran the guest after another one had: %v", r.order)
	})
}

// runnersOf notes who runs a server's guest from now on.
func runnersOf(id string) *runners {
	times := func() map[int]time.Duration {
		out := map[int]time.Duration{}
		for _, pid := range machines()[id] {
			out[pid] = vCPUTime(pid)
		}
		return out
	}
	return &runners{times: times, noted: times()}
}

// vCPUTime is the CPU time that the virtual CPUs of a QEMU have taken, 0 if it has ended.
func vCPUTime(pid int) (sum time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid)) // the pattern is a good one
	for _, thread := range threads {
		name, _ := os.ReadFile(filepath.Join(thread, "comm"))
		text, _ := os.ReadFile(filepath.Join(thread, "schedstat"))
		taken, _, _ := strings.Cut(string(text), " ")
		if n, err := strconv.ParseInt(taken, 10, 64); err == nil && strings.HasPrefix(string(name), "CPU ") {
			sum += time.Duration(n)
		}
	}
	return sum
}
