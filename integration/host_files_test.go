package integration_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
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
// encrypted, and what is written beside them is short.
const ofFile = 8 << 20

// inFiles tells what of a host's files, of their names and of what is noted with them has
// something of the canaries, or a token, or the address of a database.
func (c *testCloud) inFiles(t *testing.T, h stack.Host, known ...canaries) (found []string) {
	t.Helper()
	hasToken, files := tokenFinder(), 0
	look := func(path string, text []byte) {
		for _, k := range known {
			for _, name := range k.in(text) {
				found = append(found, path+": "+name)
			}
		}
		if hasToken(text) || bytes.Contains(text, []byte("postgres://")) {
			found = append(found, path+": a token, or a database")
		}
	}
	for _, root := range c.filesOfHost(t, h) {
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
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
				look(path, partsOf(path))
			}
			return nil
		}))
	}
	require.Greater(t, files, 5)
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

// partsOf are the beginning and the end of a file; nothing if it went meanwhile.
func partsOf(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	text, _ := io.ReadAll(io.LimitReader(f, ofFile))
	if info, err := f.Stat(); err == nil && info.Size() > ofFile {
		end, _ := io.ReadAll(io.NewSectionReader(f, max(ofFile, info.Size()-ofFile), ofFile))
		text = append(text, end...)
	}
	return text
}
