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

	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
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

// stops waits until a host has stopped the guest of a server, as it does by itself.
func (c *testCloud) stops(t *testing.T, h stack.Host, id string) {
	t.Helper()
	await.For(t, "no QEMU runs server "+id, func() bool { return copies(id) == 0 }, c.hostProgress(h), c.progress(id))
}

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

// Whether a QEMU runs its guest shows in how often its virtual CPUs go to sleep: libvirt may be
// dead, and QEMU's monitor is libvirt's. One that stands still wakes up for nothing; to be started and to load
// a guest takes 8 turns of each (QEMU 7.2, TCG); the idle guest takes 20 each second. The time that they take
// tells less: on a busy machine, to be started takes 11 ms instead of 1.
const (
	bringUp = 12
	atWork  = 4
)

// runners are the QEMUs that ran the guest of a server, in that order.
type runners struct {
	turns func() map[int]int // of the virtual CPUs, by process
	noted map[int]int        // of those, what was seen before
	order []int
}

// look notes who has run since the last look.
func (r *runners) look() {
	now := r.turns()
	var moved []int
	for pid, turns := range now {
		if turns-r.noted[pid] >= atWork {
			moved = append(moved, pid)
			r.noted[pid] = turns
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
	for pid, turns := range r.turns() { // what the others did before counts no more
		r.noted[pid] = turns
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
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
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
	turns := func() map[int]int {
		out := map[int]int{}
		for _, pid := range machines()[id] {
			out[pid] = vCPUTurns(pid)
		}
		return out
	}
	return &runners{turns: turns, noted: turns()}
}

// vCPUTurns is how often the virtual CPUs of a QEMU have gone to sleep since it was started and had loaded its guest, 0 if it
// has ended.
func vCPUTurns(pid int) (sum int) {
	for _, thread := range vCPUs(pid) {
		text, _ := os.ReadFile(filepath.Join(thread, "status"))
		_, after, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:\t")
		turns, _, _ := strings.Cut(after, "\n")
		if n, err := strconv.Atoi(turns); err == nil {
			sum += max(0, n-bringUp)
		}
	}
	return sum
}

// vCPUTime is how long the virtual CPUs of a QEMU have run, 0 if it has ended.
func vCPUTime(pid int) time.Duration { return ranFor(vCPUs(pid)) }

// ranFor is how long threads have run, which are folders of /proc.
func ranFor(threads []string) (sum time.Duration) {
	for _, thread := range threads {
		text, _ := os.ReadFile(filepath.Join(thread, "schedstat"))
		ran, _, _ := strings.Cut(string(text), " ")
		if n, err := strconv.ParseInt(ran, 10, 64); err == nil {
			sum += time.Duration(n)
		}
	}
	return sum
}

// vCPUs are the threads of a QEMU's virtual CPUs, as folders of /proc.
func vCPUs(pid int) (threads []string) {
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid)) // the pattern is a good one
	for _, thread := range all {
		if name, _ := os.ReadFile(filepath.Join(thread, "comm")); strings.HasPrefix(string(name), "CPU ") {
			threads = append(threads, thread)
		}
	}
	return threads
}
