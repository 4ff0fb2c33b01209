package guest

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Kernel is an unpacked or installed Debian cloud kernel.
type Kernel struct {
	Release string // as uname -r has it
	Image   string // vmlinuz
	modules string // folder of the release's modules
}

// metapackage always depends on the newest cloud kernel.
const metapackage = "linux-image-cloud-amd64"

// FindKernel gives the kernel that images are built with. Of several at once one
// downloads it.
func FindKernel(ctx context.Context, opts Options) (Kernel, error) {
	opts.defaults()
	if err := os.MkdirAll(opts.CacheDir, 0o755); err != nil {
		return Kernel{}, fmt.Errorf("guest: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(opts.CacheDir, "lock"))
	if err != nil {
		return Kernel{}, fmt.Errorf("guest: %w", err)
	}
	defer unlock()
	return findKernel(ctx, opts)
}

// findKernel gives the machine's own cloud kernel, or one in the cache, which
// it downloads when there is none.
func findKernel(ctx context.Context, opts Options) (Kernel, error) {
	unpacked := filepath.Join(opts.CacheDir, "kernel")
	for _, root := range []string{"/", unpacked} {
		if k, ok := kernelIn(root); ok {
			return k, nil
		}
	}
	if err := download(ctx, unpacked); err != nil {
		return Kernel{}, err
	}
	k, ok := kernelIn(unpacked)
	if !ok {
		return Kernel{}, fmt.Errorf("guest: no cloud kernel in the package that %s depends on", metapackage)
	}
	opts.Logger.Info("downloaded Debian's cloud kernel", "release", k.Release)
	return k, nil
}

func kernelIn(root string) (Kernel, bool) {
	images, _ := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*-cloud-amd64"))
	for i := len(images) - 1; i >= 0; i-- {
		release := strings.TrimPrefix(filepath.Base(images[i]), "vmlinuz-")
		modules := filepath.Join(root, "lib", "modules", release)
		if _, err := os.Stat(filepath.Join(modules, "kernel")); err == nil {
			return Kernel{release, images[i], modules}, true
		}
	}
	return Kernel{}, false
}

var dependency = regexp.MustCompile(`(?m)^\s*Depends: (linux-image-\S+)`)

// download unpacks the newest cloud kernel's package into a folder that appears whole.
func download(ctx context.Context, folder string) error {
	return withLists(ctx, func(options ...string) error {
		name, err := newest(ctx, options...)
		if err != nil {
			return err
		}
		return unpackWith(ctx, folder, options, name)
	})
}

// withLists does what needs apt's lists; where it fails with the machine's, which are old or were removed, with new ones that are its own.
func withLists(ctx context.Context, do func(options ...string) error) error {
	old := do()
	if old == nil || ctx.Err() != nil {
		return old
	}
	lists, err := os.MkdirTemp("", "strongroom-lists-")
	if err != nil {
		return fmt.Errorf("guest: %w", err)
	}
	defer os.RemoveAll(lists)
	options := []string{"-o", "Dir::State::lists=" + lists, "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="}
	err = run(exec.CommandContext(ctx, "apt-get", append([]string{"update", "-qq", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=4"}, options...)...))
	if err == nil {
		err = do(options...)
	}
	if err != nil {
		return errors.Join(old, err)
	}
	return nil
}

// newest names the package that the metapackage depends on.
func newest(ctx context.Context, options ...string) (string, error) {
	cache := exec.CommandContext(ctx, "apt-cache", append(options, "depends", metapackage)...)
	cache.Env = append(os.Environ(), "LC_ALL=C", "LANGUAGE=") // dependency is English
	out, err := cache.Output()
	if err != nil {
		return "", fmt.Errorf("guest: apt-cache: %w", err)
	}
	found := dependency.FindSubmatch(out)
	if found == nil {
		return "", fmt.Errorf("guest: apt knows no package %s", metapackage)
	}
	return string(found[1]), nil
}

// unpack downloads packages of Debian and unpacks them into a folder that appears whole.
func unpack(ctx context.Context, folder string, names ...string) error {
	return withLists(ctx, func(options ...string) error { return unpackWith(ctx, folder, options, names...) })
}

func unpackWith(ctx context.Context, folder string, options []string, names ...string) error {
	temp, err := os.MkdirTemp(filepath.Dir(folder), "packages-")
	if err != nil {
		return fmt.Errorf("guest: %w", err)
	}
	defer os.RemoveAll(temp)
	get := exec.CommandContext(ctx, "apt-get", slices.Concat([]string{"download", "-qq", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=4"}, options, names)...)
	get.Dir = temp
	if err := run(get); err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(temp, "*.deb"))
	if err != nil || len(packages) != len(names) {
		return fmt.Errorf("guest: apt-get download gave %d packages", len(packages))
	}
	for _, p := range packages {
		if err := run(exec.CommandContext(ctx, "dpkg-deb", "-x", p, filepath.Join(temp, "x"))); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("guest: %w", err)
	}
	return os.Rename(filepath.Join(temp, "x"), folder)
}

// ModuleFiles gives the files of modules and of all that they need, in the
// order in which they can be loaded. One that is not there is built in.
func (k Kernel) ModuleFiles(names ...string) ([]string, error) {
	byName := map[string]string{}
	err := filepath.WalkDir(filepath.Join(k.modules, "kernel"), func(path string, _ fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(path), ".ko"); ok {
			byName[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var files []string
	seen := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		name = strings.ReplaceAll(name, "-", "_")
		path, ok := byName[name]
		if !ok || seen[name] {
			return nil
		}
		seen[name] = true
		needs, err := moduleNeeds(path)
		if err != nil {
			return err
		}
		for _, n := range needs {
			if err := add(n); err != nil {
				return err
			}
		}
		files = append(files, path)
		return nil
	}
	for _, n := range names {
		if err := add(n); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// moduleNeeds reads the names of the modules that a module names as its needs.
func moduleNeeds(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, nil
	}
	data, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, field := range bytes.Split(data, []byte{0}) {
		if needs, ok := bytes.CutPrefix(field, []byte("depends=")); ok && len(needs) > 0 {
			return strings.Split(string(needs), ","), nil
		}
	}
	return nil, nil
}
