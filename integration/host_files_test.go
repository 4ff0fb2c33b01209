package integration_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/deploy/dev/stack"
)

// tokenFinder finds tokens quickly: each form begins with a text.
func tokenFinder() func(text []byte) bool {
	var forms []*regexp.Regexp
	for form := range strings.SplitSeq(anyToken().String(), "|") {
		forms = append(forms, regexp.MustCompile(form))
	}
	return func(text []byte) bool {
		return slices.ContainsFunc(forms, func(r *regexp.Regexp) bool { return r.Match(text) })
	}
}

// filesOfHost are the files and folders of a host's worker and of its libvirtd: configuration,
// certificate, disks, image cache, sockets, state of TPMs and logs.
func (c *testCloud) filesOfHost(t *testing.T, h stack.Host) []string {
	t.Helper()
	var cfg struct {
		Host struct {
			Certificate, Run string
			IDFile           string `yaml:"id_file"`
			Cache            string `yaml:"image_cache"`
		}
	}
	readYAML(t, h.ConfigFile(), &cfg)
	all := []string{
		h.ConfigFile(), cfg.Host.Certificate, cfg.Host.IDFile, h.Instances(), cfg.Host.Cache, cfg.Host.Run, h.SwtpmDir(),
		filepath.Dir(filepath.Dir(h.LibvirtSocket())), // libvirtd's configuration, domains, secrets, logs and sockets
		c.LogFile(h.Part("host")),
	}
	for _, path := range all {
		_, err := os.Stat(path)
		require.NoError(t, err)
	}
	return all
}

// ofFile is how much of a file is searched, at its beginning and at its end: disks are
// encrypted, and what is written beside them is short. duringOperations is how much while an
// operation waits for it.
const (
	ofFile           = 8 << 20
	duringOperations = 64 << 10
)

const aTokenOrDatabase = "a token, or a database"

// inFiles tells what of a host's files, of their names and of what is noted with them has
// something of the canaries, or a token, or the address of a database; so much of each is read.
func (c *testCloud) inFiles(t *testing.T, h stack.Host, much int, known canaries) (found []string) {
	t.Helper()
	hasToken, find, files := tokenFinder(), known.finder(), 0
	look := func(path string, text []byte) {
		for _, name := range find(text) {
			found = append(found, path+": "+name)
		}
		if hasToken(text) || bytes.Contains(text, []byte("postgres://")) {
			found = append(found, path+": "+aTokenOrDatabase)
		}
	}
	for _, root := range c.filesOfHost(t, h) {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) { // files come and go
				return nil
			}
			if err != nil {
				return err
			}
			look(path, []byte(path))
			look(path, notesOf(path))
			if d.Type().IsRegular() {
				files++
				look(path, partsOf(path, much))
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if files <= 5 {
		t.Errorf("the files of host %d were not found", h.Number)
	}
	return found
}

// What a host worker has in memory for a moment, as files: what is to be on a server's config drive,
// and what ceph-fuse is told to mount a share.
const (
	serverFolder = "strongroom-"
	mountFolder  = "strongroom-mount-"
)

// memoryFolder is the folder in memory of a process.
func memoryFolder(pid int) string { return fmt.Sprintf("/proc/%d/root/dev/shm", pid) }

// inMemoryIsClean requires of the folders in memory of a host that there is one of the server of the
// operation that runs alone, and that it has no key to the cloud, no token and no passphrase.
func (w *hostLooks) inMemoryIsClean(t *testing.T, h stack.Host) {
	t.Helper()
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, found := range w.inMemory(t, h) {
		t.Errorf(invariant+"host %d, while an operation runs on %q: %s", h.Number, w.busy, found)
	}
}

// inMemory tells what is in the folders in memory of a host and may not be there. Other clouds of
// this machine have theirs beside them.
func (w *hostLooks) inMemory(t *testing.T, h stack.Host) (found []string) {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(memoryFolder(w.workers[h]), serverFolder+"*"))
	if err != nil {
		t.Error(err)
	}
	if len(folders) == 0 {
		return nil
	}
	known := maps.Clone(w.known)
	for _, of := range w.of {
		maps.Copy(known, of)
	}
	find := known.finder()
	for _, folder := range folders {
		server, _ := strings.CutPrefix(filepath.Base(folder), serverFolder)
		_, own := w.of[server]
		_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil //nolint:nilerr // files come and go
			}
			text := partsOf(path, ofFile)
			for _, name := range find(text) {
				found = append(found, path+": "+name)
			}
			if w.hasToken(text) {
				found = append(found, path+": a token")
			}
			own = own || bytes.Contains(text, []byte(w.State)) // of a mount of this cloud's
			return nil
		})
		if own && server != w.busy {
			found = append(found, folder+" is left")
		}
	}
	return found
}

// notesOf are the extended attributes of a file.
func notesOf(path string) (text []byte) {
	names := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, names)
	if err != nil {
		return nil
	}
	for name := range bytes.SplitSeq(names[:n], []byte{0}) {
		value := make([]byte, 64<<10)
		if n, err := unix.Lgetxattr(path, string(name), value); err == nil {
			text = append(append(append(text, name...), '='), value[:n]...)
		}
	}
	return text
}

// partsOf are the beginning and the end of a file, so much of each; nothing if it went meanwhile.
func partsOf(path string, much int) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	text, _ := io.ReadAll(io.LimitReader(f, int64(much)))
	if info, err := f.Stat(); err == nil && info.Size() > int64(much) {
		end, _ := io.ReadAll(io.NewSectionReader(f, max(int64(much), info.Size()-int64(much)), int64(much)))
		text = append(text, end...)
	}
	return text
}
