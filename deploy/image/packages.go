package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// packages are what the initializer runs, with test, which the startup probe runs. Debian
// says what they need.
var packages = []string{"cryptsetup-bin", "dmsetup", "e2fsprogs", "coreutils"}

// authorities has the certificates by which Barbican is known. What it needs, Perl among it, is for its
// installation alone.
const authorities = "ca-certificates"

// download gets packages and all that they need, by apt's own signed lists, and gives their files. Where
// the machine's lists are too old, it gets its own.
func download(ctx context.Context, dir string) ([]string, error) {
	for _, sub := range []string{"cache/archives/partial", "lone", "lists/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	status := filepath.Join(dir, "status")
	if err := os.WriteFile(status, nil, 0o600); err != nil {
		return nil, err
	}
	a := apt{in: filepath.Join(dir, "lone"), options: []string{
		"-q", "-y", "-o", "Dir::State::status=" + status, "-o", "Dir::State::extended_states=" + filepath.Join(dir, "extended"), // as if nothing were installed
		"-o", "Dir::Cache::archives=" + filepath.Join(dir, "cache/archives"), "-o", "APT::Install-Recommends=false",
		"-o", "APT::Sandbox::User=", "-o", "Debug::NoLocking=true", "-o", "Acquire::Retries=4",
	}}
	if old := a.getAll(ctx); old != nil {
		a.options = append(a.options, "-o", "Dir::State::lists="+filepath.Join(dir, "lists"))
		err := a.get(ctx, "update")
		if err == nil {
			err = a.getAll(ctx)
		}
		if err != nil {
			return nil, errors.Join(old, err)
		}
	}
	var files []string
	for _, pattern := range []string{"cache/archives/*.deb", "lone/*.deb"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	return files, nil
}

// apt is apt-get with state of its own.
type apt struct {
	in      string
	options []string
}

func (a apt) get(ctx context.Context, args ...string) error {
	return run(ctx, a.in, "apt-get", append(slices.Clone(a.options), args...)...)
}

func (a apt) getAll(ctx context.Context) error {
	if err := a.get(ctx, append([]string{"--download-only", "install"}, packages...)...); err != nil {
		return err
	}
	return a.get(ctx, "download", authorities)
}

func run(ctx context.Context, dir, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, said)
	}
	return nil
}

// entry is a file of the image.
type entry struct {
	tar.Header
	content []byte
}

// files are the image's, by name.
type files map[string]entry

// addPackage adds what a package has, but for what only people read.
func (f files) addPackage(ctx context.Context, deb string) error {
	if err := f.addStatus(ctx, deb); err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	err = f.addAll(tar.NewReader(out))
	_, _ = io.Copy(io.Discard, out)
	if err := errors.Join(err, c.Wait()); err != nil {
		return fmt.Errorf("%s: %w %s", filepath.Base(deb), err, said.Bytes())
	}
	return nil
}

func (f files) addAll(r *tar.Reader) error {
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := merged(strings.Trim(strings.TrimPrefix(h.Name, "."), "/"))
		if name == "" || isForPeople(name) {
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		e := entry{tar.Header{Typeflag: h.Typeflag, Mode: h.Mode, Linkname: h.Linkname}, content}
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
		case tar.TypeLink:
			e.Linkname = merged(strings.TrimPrefix(strings.TrimPrefix(h.Linkname, "."), "/"))
		default:
			return fmt.Errorf("%s: a file of type %q", h.Name, h.Typeflag)
		}
		if _, twice := f[name]; twice && h.Typeflag != tar.TypeDir {
			return fmt.Errorf("%s is in two packages", name)
		}
		f[name] = e
	}
}

// addStatus says which version of a package is there, where scanners look for it that know images
// without a package manager.
func (f files) addStatus(ctx context.Context, deb string) error {
	control, err := exec.CommandContext(ctx, "dpkg-deb", "--field", deb).Output()
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(deb), err)
	}
	name, _, _ := strings.Cut(filepath.Base(deb), "_")
	f.addText("var/lib/dpkg/status.d/"+name, control, 0o644)
	return nil
}

func (f files) addText(name string, content []byte, mode int64) {
	f[name] = entry{tar.Header{Typeflag: tar.TypeReg, Mode: mode}, content}
}

// inUsr are the folders that are links into /usr on a Debian that is installed.
var inUsr = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

func merged(name string) string {
	first, _, _ := strings.Cut(name, "/")
	if slices.Contains(inUsr, first) {
		return "usr/" + name
	}
	return name
}

// isForPeople reports whether no program reads a file. Licences stay.
func isForPeople(name string) bool {
	if strings.HasPrefix(name, "usr/share/doc/") {
		return filepath.Base(name) != "copyright"
	}
	return slices.ContainsFunc([]string{"man", "locale", "info", "lintian", "bug", "bash-completion", "doc-base", "initramfs-tools"}, func(of string) bool {
		return name == "usr/share/"+of || strings.HasPrefix(name, "usr/share/"+of+"/")
	})
}

// addCertificates makes of the authorities' certificates the one file in which programs look for them.
func (f files) addCertificates() error {
	var names []string
	for name := range f {
		if strings.HasPrefix(name, "usr/share/ca-certificates/mozilla/") && strings.HasSuffix(name, ".crt") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return errors.New("no certificate in " + authorities)
	}
	slices.Sort(names)
	var all []byte
	for _, name := range names {
		all = append(append(all, bytes.TrimSpace(f[name].content)...), '\n')
	}
	f.addText("etc/ssl/certs/ca-certificates.crt", all, 0o644)
	return nil
}
