package integration_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/process"
	"strongroom/deploy/dev/stack"
)

// hostLooks looks at what hosts have, in the memory of their workers and in files, while
// operations run.
type hostLooks struct {
	*testCloud
	hosts    []stack.Host
	workers  map[stack.Host]int // their process ids
	known    canaries           // is nowhere, ever
	hasToken func(text []byte) bool

	// No operation begins or ends while somebody looks.
	mu     sync.RWMutex
	of     map[string]canaries // passphrases, by server
	busy   string              // the server of the operation that runs
	busyOn []stack.Host        // where it works

	looking sync.WaitGroup
	ended   chan struct{}
}

// watchHosts begins to look at hosts, at any moment until stop.
func (c *testCloud) watchHosts(t *testing.T, known canaries, hosts ...stack.Host) *hostLooks {
	t.Helper()
	w := &hostLooks{
		testCloud: c, hosts: hosts, workers: map[stack.Host]int{}, known: known, hasToken: tokenFinder(),
		of: map[string]canaries{}, ended: make(chan struct{}),
	}
	for _, h := range hosts {
		pid, running := process.Named(c.PIDFile(h.Part("host")))
		require.True(t, running)
		w.workers[h] = pid
		w.memoryIsClean(t, h)
	}
	w.again(t, 200*time.Millisecond, w.memoryIsClean)
	w.again(t, 10*time.Millisecond, w.inMemoryIsClean)
	t.Cleanup(func() { w.stop(t) })
	return w
}

// again looks at the hosts again and again, until something is found: a fifth of the time at most, for a look at a worker's memory
// keeps a processor busy.
func (w *hostLooks) again(t *testing.T, pause time.Duration, look func(t *testing.T, h stack.Host)) {
	t.Helper()
	w.looking.Go(func() {
		took := time.Duration(0)
		for !t.Failed() {
			for _, h := range w.hosts {
				select {
				case <-w.ended:
					return
				case <-time.After(max(pause, 4*took)):
				}
				began := time.Now()
				look(t, h)
				took = time.Since(began)
			}
		}
	})
}

func (w *hostLooks) stop(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.looking.Wait()
	defer w.mu.Unlock()
	select {
	case <-w.ended:
	default:
		close(w.ended)
	}
}

// operation does an operation on a server, "" if it makes one, and gives the server. When a host has
// come to a point of it, and waits there, it looks at all hosts; and again when it is over. Where the
// operation works on another host, too, it is among also: no other host has passphrases of the server.
func (w *hostLooks) operation(t *testing.T, server string, on stack.Host, point string, do func() string, also ...stack.Host) {
	t.Helper()
	w.mu.Lock()
	w.busy, w.busyOn = server, append(also, on)
	w.mu.Unlock()
	at, over, seen := w.holdOn(t, on, point), make(chan struct{}), make(chan []string, 1)
	w.looking.Go(func() {
		defer close(seen)
		defer at.release()
		seen <- w.whileItWaits(t, at, over)
	})
	server = do()
	close(over)
	states := <-seen
	require.Len(t, states, 2, "it was looked at while %s waited", point)
	require.NotContains(t, states, "", "an operation ran before and after the look at %s", point)
	t.Logf("looked at %d hosts while the server was %s, at %s of %s", len(w.hosts), states[0], point, hostName(t, on))

	w.note(t, server)
	w.mu.Lock()
	w.busy, w.busyOn = "", nil
	w.mu.Unlock()
	for _, h := range w.hosts {
		w.memoryIsClean(t, h)
		w.inMemoryIsClean(t, h)
	}
}

// whileItWaits looks at the hosts once something waits at a point, and gives what is being done to
// the one server to which something is done, before and after that.
func (w *hostLooks) whileItWaits(t *testing.T, at held, over chan struct{}) (states []string) {
	t.Helper()
	for !at.reached() {
		select {
		case <-over:
			return nil
		case <-t.Context().Done():
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
	states = append(states, w.task(t))
	for _, h := range w.hosts {
		w.memoryIsClean(t, h)
		w.inMemoryIsClean(t, h)
		for _, found := range w.inFiles(t, h, duringOperations, w.anywhere()) {
			t.Errorf(invariant+"during an operation: %s", found)
		}
	}
	return append(states, w.task(t))
}

// task is what is being done to the servers of the project demo and of alt; "" if nothing is.
func (w *hostLooks) task(t *testing.T) string {
	t.Helper()
	var tasks []string
	for _, user := range []string{"-demo", "-alt"} {
		pages, err := servers.List(w.compute(t, user), nil).AllPages(t.Context())
		if err != nil {
			t.Error(err)
			return ""
		}
		all, err := servers.ExtractServers(pages)
		if err != nil {
			t.Error(err)
		}
		for _, s := range all {
			if s.TaskState != "" {
				tasks = append(tasks, s.TaskState)
			}
		}
	}
	return strings.Join(tasks, ", ")
}

// note notes the passphrases that a server has now; those that it had stay noted.
func (w *hostLooks) note(t *testing.T, server string) {
	t.Helper()
	least := 0 // it may be deleted by now
	if _, known := w.of[server]; !known {
		least = 4 // three disks and a TPM
	}
	w.noteAs(t, server, "strongroom server "+server+" ", least)
}

// noteImage notes the passphrases of an image of a server: what reads it runs on that server.
func (w *hostLooks) noteImage(t *testing.T, server, image string) {
	t.Helper()
	w.noteAs(t, server, "strongroom image "+image+" ", 1)
}

func (w *hostLooks) noteAs(t *testing.T, server, prefix string, least int) {
	t.Helper()
	now := canaries{}
	for _, user := range []string{"-demo", "-alt"} {
		for name, value := range w.passphrasesOf(t, user) {
			if strings.HasPrefix(name, prefix) {
				now.add(name+" "+fmt.Sprintf("%x", sha256.Sum256(value)), value)
			}
		}
	}
	require.GreaterOrEqual(t, len(now), least, prefix)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of[server] == nil {
		w.of[server] = canaries{}
	}
	maps.Copy(w.of[server], now)
}

// atRest are the passphrases of servers on which no operation runs at a host.
func (w *hostLooks) atRest(h stack.Host) canaries {
	all := canaries{}
	for server, of := range w.of {
		if server != w.busy || !slices.Contains(w.busyOn, h) {
			maps.Copy(all, of)
		}
	}
	return all
}

// anywhere are the keys to the cloud and all passphrases.
func (w *hostLooks) anywhere() canaries {
	w.mu.RLock()
	defer w.mu.RUnlock()
	all := maps.Clone(w.known)
	for _, of := range w.of {
		maps.Copy(all, of)
	}
	return all
}

// memoryIsClean requires of the memory of a host's worker that it has no key to the cloud, no
// passphrase of a server on which no operation runs there, and no token.
func (w *hostLooks) memoryIsClean(t *testing.T, h stack.Host) {
	t.Helper()
	w.mu.RLock()
	defer w.mu.RUnlock()
	memory := memoryOf(w.workers[h])
	if len(memory) == 0 {
		t.Errorf("the worker of host %d ended", h.Number)
	}
	known := maps.Clone(w.known)
	maps.Copy(known, w.atRest(h))
	if found := known.finder()(memory); len(found) > 0 {
		t.Errorf(invariant+"while an operation runs on %q, the memory of host %d's worker holds %v", w.busy, h.Number, found)
	}
	if w.hasToken(memory) {
		t.Errorf(invariant+"the memory of host %d's worker holds a token", h.Number)
	}
}

func (w *hostLooks) filesAreClean(t *testing.T) {
	t.Helper()
	for _, h := range w.hosts {
		require.Empty(t, w.inFiles(t, h, ofFile, w.anywhere()), invariant+hostName(t, h))
	}
}

// processesAreClean requires that the workers are those of the beginning, that neither their
// arguments nor their environment hold anything, and that they have no file of the control plane open.
func (w *hostLooks) processesAreClean(t *testing.T) {
	t.Helper()
	for h, was := range w.workers {
		pid, running := process.Named(w.PIDFile(h.Part("host")))
		require.True(t, running)
		require.Equal(t, was, pid, "it is the same process")
		for _, what := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, what))
			require.NoError(t, err)
			require.NotEmpty(t, text)
			require.Empty(t, w.anywhere().in(text), invariant+what)
			require.False(t, w.hasToken(text), invariant+what)
		}
		open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		require.NoError(t, err)
		for _, fd := range open {
			to, _ := os.Readlink(fd) // one may be closed by now
			for _, file := range []string{
				"service.password", "credentials.key", "master.key", "token.key", "metadata.secret", "ca.key", "clouds.yaml", "strongroom.yaml", ".s.PGSQL",
			} {
				require.NotContains(t, to, file)
			}
		}
	}
}
