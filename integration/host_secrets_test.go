package integration_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/process"
	"strongroom/deploy/dev/stack"
)

// H1: neither the memory of a host worker, at any of many moments of operations, nor its
// environment, configuration and files, nor those of its libvirtd, hold what opens more than the
// server of the operation: the database, strongroom's password, the keys of credentials and of the
// key manager, tokens, and passphrases of other servers: of one of its own on which no operation
// runs, and of one that another project has on another host. No file has a passphrase at all.
func TestH1AHostHoldsNoKeyToTheCloud(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	hosts := []stack.Host{a, b}
	known := canaries{}
	for _, file := range []string{"service.password", "credentials.key", "master.key", "ca/ca.key"} {
		text, err := os.ReadFile(filepath.Join(c.State, file))
		if os.IsNotExist(err) && leansOn() == openStack {
			continue // the cloud has its own key manager
		}
		require.NoError(t, err)
		for i, form := range keyForms(t, text) {
			known.add(fmt.Sprintf("%s (form %d)", file, i), form)
		}
	}
	known.add("the database", []byte(databaseURL(t, c)))
	hasToken := tokenFinder()

	owner, err := c.login("-demo")
	require.NoError(t, err)
	api := owner.compute(t)
	// A server on which nothing works while others are started, copied, rebuilt and moved, and
	// one of another project on the other host.
	bystander := c.on(t, a, func() string { return c.createIdle(t, encryptedTPM) })
	foreign := c.foreign(t, b)
	pids := map[int]string{}
	for _, h := range hosts {
		pid, running := process.Named(c.PIDFile(h.Part("host")))
		require.True(t, running)
		pids[pid] = hostName(t, h)
	}
	theirs, all := canaries{}, canaries{} // of servers at rest; all there are
	note := func(into canaries, server string) {
		t.Helper()
		n := 0
		for _, user := range []string{"-demo", "-alt"} {
			for name, value := range c.passphrasesOf(t, user) {
				if strings.HasPrefix(name, "strongroom server "+server+" ") {
					into.add(name+" "+fmt.Sprintf("%x", sha256.Sum256(value)), value)
					n++
				}
			}
		}
		require.GreaterOrEqual(t, n, 4, "three disks and a TPM")
	}
	for _, server := range []string{bystander, foreign} {
		note(theirs, server)
		note(all, server)
	}
	look := func(pid int, memory []byte) {
		t.Helper()
		if found := known.in(memory); len(found) > 0 {
			t.Errorf("the memory of %s's worker holds %v", pids[pid], found)
		}
		if found := theirs.in(memory); len(found) > 0 {
			t.Errorf("the memory of %s's worker holds passphrases of servers on which no operation runs: %v", pids[pid], found)
		}
		if hasToken(memory) {
			t.Errorf("the memory of %s's worker holds a token", pids[pid])
		}
	}
	filesAreClean := func() {
		t.Helper()
		for _, h := range hosts {
			require.Empty(t, c.inFiles(t, h, known, all), hostName(t, h))
		}
	}
	for pid := range pids {
		look(pid, memoryOf(pid))
	}
	stop, looks := make(chan struct{}), make(chan map[int]int, 1)
	go func() {
		n := map[int]int{}
		defer func() { looks <- n }()
		for {
			for pid := range pids {
				select {
				case <-stop:
					return
				case <-t.Context().Done():
					return
				case <-time.After(100 * time.Millisecond):
				}
				if memory := memoryOf(pid); len(memory) > 0 {
					n[pid]++
					look(pid, memory)
				}
			}
		}
	}()
	id := c.on(t, a, func() string { return c.createIdle(t, encryptedTPM) })
	note(all, id)
	filesAreClean()
	require.NoError(t, servers.Stop(t.Context(), api, id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	require.NoError(t, servers.Start(t.Context(), api, id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	img := c.createImage(t, id, "copy", map[string]any{"key": "new"})
	c.deleteImage(t, img)
	c.rebuild(t, id, c.idler, "ACTIVE")
	note(all, id)
	c.resize(t, id, largerTPM)
	c.requireOn(t, b, id)
	filesAreClean()
	c.revert(t, id)
	c.requireOn(t, a, id)
	c.shelve(t, id)
	filesAreClean()
	c.unshelveTo(t, b, id)
	c.becomes(t, id, "ACTIVE")
	filesAreClean()
	c.delete(t, id)
	close(stop)
	for pid, n := range <-looks {
		require.GreaterOrEqual(t, n, 3, pids[pid]) // a look takes seconds where processors are few
	}

	// Its own operations leave nothing either: a stop and a start, a live migration, and a rotation,
	// which changes the passphrases.
	require.NoError(t, servers.Stop(t.Context(), api, bystander).ExtractErr())
	c.becomes(t, bystander, "SHUTOFF")
	require.NoError(t, servers.Start(t.Context(), api, bystander).ExtractErr())
	c.becomes(t, bystander, "ACTIVE")
	require.NoError(t, c.liveMigrate(t, bystander, &b)) // whoever asks may not read its keys: a hands them on
	c.becomes(t, bystander, "ACTIVE")
	c.requireOn(t, b, bystander)
	for pid := range pids {
		look(pid, memoryOf(pid))
	}
	require.NoError(t, c.rotate(t, "-demo", bystander, nil))
	c.becomes(t, bystander, "ACTIVE")
	note(theirs, bystander)
	note(all, bystander)
	for pid := range pids {
		look(pid, memoryOf(pid))
	}
	c.delete(t, bystander)
	filesAreClean()

	for _, h := range hosts {
		pid, running := process.Named(c.PIDFile(h.Part("host")))
		require.True(t, running)
		require.Contains(t, pids, pid, "it is the same process")
		environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		require.NoError(t, err)
		require.Empty(t, known.in(environment))
		require.Empty(t, all.in(environment))
		require.False(t, hasToken(environment))
		open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		require.NoError(t, err)
		for _, fd := range open {
			to, _ := os.Readlink(fd) // one may be closed by now
			for _, file := range []string{"service.password", "credentials.key", "master.key", "strongroom.yaml", ".s.PGSQL"} {
				require.NotContains(t, to, file)
			}
		}
	}
	// The search finds what is there.
	control, running := process.Named(c.PIDFile("control"))
	require.True(t, running)
	require.Contains(t, known.in(memoryOf(control)), "the database")
	require.True(t, hasToken([]byte("x"+api.Token()+"x")))
	for _, h := range hosts {
		for _, secret := range []string{api.Token(), databaseURL(t, c), string(all[anyOf(all)][0])} {
			planted := filepath.Join(h.Instances(), "planted")
			require.NoError(t, os.WriteFile(planted, append(make([]byte, 2*ofFile), secret...), 0o600))
			found := c.inFiles(t, h, known, all)
			require.NoError(t, os.Remove(planted))
			require.NotEmpty(t, found)
			require.Contains(t, found[0], planted)
		}
	}
}

func anyOf(c canaries) string {
	for name := range c {
		return name
	}
	return ""
}

// foreign makes a server of the project alt on a host. It is deleted when the test ends.
func (c *testCloud) foreign(t *testing.T, h stack.Host) (id string) {
	t.Helper()
	for n := range c.hosts {
		if other := c.Host(n + 1); other != h {
			c.updateService(t, other, map[string]any{"status": "disabled"})
			defer c.updateService(t, other, map[string]any{"status": "enabled"})
		}
	}
	client := c.asking(t, "-alt")
	s, err := servers.Create(t.Context(), client, servers.CreateOpts{
		Name: "foreign", FlavorRef: c.flavor(t, encryptedTPM), ImageRef: c.idler, Networks: "none",
	}, nil).Extract()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = servers.Delete(context.Background(), client, s.ID).ExtractErr()
		c.goneAs(t, "-alt", s.ID)
	})
	got := c.settledAs(t, "-alt", s.ID)
	require.Equal(t, "ACTIVE", got.Status, "fault: %s", got.Fault.Message)
	return s.ID
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

// keyForms gives what a file of a key could be found as: its text, and the key that a process
// which read it has.
func keyForms(t *testing.T, file []byte) [][]byte {
	t.Helper()
	text := bytes.TrimSpace(file)
	if block, _ := pem.Decode(file); block != nil {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		require.NoError(t, err)
		forms := [][]byte{bytes.SplitN(text, []byte("\n"), 3)[1], block.Bytes}
		key, ok := parsed.(*ecdsa.PrivateKey)
		require.True(t, ok, "a key of type %T", parsed)
		scalar, err := key.Bytes()
		require.NoError(t, err)
		return append(forms, scalar)
	}
	if key, err := hex.DecodeString(string(text)); err == nil && len(key) >= 16 {
		return [][]byte{text, key}
	}
	return [][]byte{text}
}
