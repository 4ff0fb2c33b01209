package integration_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/process"
)

// H1: neither the memory of a host worker, at any of many moments of operations, nor its
// environment, configuration and files hold what opens more than its own servers: the
// database, strongroom's password, the keys of credentials and of the key manager, and
// tokens.
func TestH1AHostHoldsNoKeyToTheCloud(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	known := canaries{}
	for _, file := range []string{"service.password", "credentials.key", "master.key", "ca/ca.key"} {
		text, err := os.ReadFile(filepath.Join(c.State, file))
		if os.IsNotExist(err) && leansOn() == openStack {
			continue // the cloud has its own key manager
		}
		require.NoError(t, err)
		if _, body, ok := bytes.Cut(text, []byte("-----\n")); ok {
			text = body[:64] // of PEM
		}
		known.add(file, bytes.TrimSpace(text))
	}
	known.add("the database", []byte(databaseURL(t, c)))
	var forms []*regexp.Regexp // each begins with a text, which makes it quick
	for form := range strings.SplitSeq(anyToken().String(), "|") {
		forms = append(forms, regexp.MustCompile(form))
	}
	hasToken := func(text []byte) bool {
		return slices.ContainsFunc(forms, func(r *regexp.Regexp) bool { return r.Match(text) })
	}

	owner, err := c.login("-demo")
	require.NoError(t, err)
	api := owner.compute(t)
	host, running := process.Named(c.PIDFile("host"))
	require.True(t, running)
	stop, looks := make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		defer func() { looks <- n }()
		for {
			select {
			case <-stop:
				return
			case <-t.Context().Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			memory := memoryOf(host)
			if len(memory) == 0 {
				continue
			}
			n++
			if found := known.in(memory); len(found) > 0 {
				t.Errorf("the host's memory holds %v", found)
			}
			if hasToken(memory) {
				t.Error("the host's memory holds a token")
			}
		}
	}()
	id := c.createIdle(t, encryptedTPM)
	c.becomes(t, id, "ACTIVE")
	require.NoError(t, servers.Stop(t.Context(), api, id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	require.NoError(t, servers.Start(t.Context(), api, id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	img := c.createImage(t, id, "copy", map[string]any{"key": "new"})
	c.deleteImage(t, img)
	c.delete(t, id)
	close(stop)
	require.GreaterOrEqual(t, <-looks, 3) // a look takes seconds where processors are few

	again, running := process.Named(c.PIDFile("host"))
	require.True(t, running)
	require.Equal(t, host, again, "it is the same process")
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", host))
	require.NoError(t, err)
	require.Empty(t, known.in(environment))
	requireClean := func(path string) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Empty(t, known.in(text), path)
		require.NotContains(t, string(text), "postgres://", path)
		require.False(t, hasToken(text), path)
	}
	requireClean(c.HostConfigFile())
	require.NoError(t, filepath.WalkDir(filepath.Join(c.State, "certificate"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			requireClean(path)
		}
		return err
	}))
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", host))
	require.NoError(t, err)
	for _, fd := range open {
		to, _ := os.Readlink(fd) // one may be closed by now
		for _, file := range []string{"service.password", "credentials.key", "master.key", "strongroom.yaml", ".s.PGSQL"} {
			require.NotContains(t, to, file)
		}
	}
	// The search finds what is there.
	control, running := process.Named(c.PIDFile("control"))
	require.True(t, running)
	require.Contains(t, known.in(memoryOf(control)), "the database")
	require.True(t, hasToken([]byte("x"+api.Token()+"x")))
}

// memoryOf reads what a process can write in its memory; nothing where it ends meanwhile.
func memoryOf(pid int) []byte {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return nil
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil
	}
	defer func() { _ = mem.Close() }()
	var all bytes.Buffer
	var from, to int64 // of the part whose size in memory comes next
	for lines := bufio.NewScanner(bytes.NewReader(maps)); lines.Scan(); {
		var a, b, kB int64
		var mode string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &a, &b, &mode); err == nil {
			from, to = a, b
			if !strings.HasPrefix(mode, "rw") {
				to = from
			}
			continue
		}
		if _, err := fmt.Sscanf(lines.Text(), "Rss: %d kB", &kB); err != nil || kB == 0 {
			continue
		}
		for at := from; at < to; at += 1 << 20 { // large parts of Go's are not there
			part := make([]byte, min(1<<20, to-at))
			n, _ := mem.ReadAt(part, at)
			if len(bytes.Trim(part[:n], "\x00")) > 0 {
				all.Write(part[:n])
			}
		}
	}
	return all.Bytes()
}
