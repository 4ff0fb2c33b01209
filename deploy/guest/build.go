package guest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Options of an image. The zero value is a good one.
type Options struct {
	CacheDir string // keeps the kernel and the images made before; default DefaultCacheDir()
	Format   string // "qcow2" (default) or "raw"
	SizeMiB  int    // virtual size, default 40
	Cmdline  string // more words for the kernel
	Logger   *slog.Logger
}

// commandLine is what the kernel is told.
func (o Options) commandLine() string {
	return strings.TrimSpace("console=ttyS0 quiet panic=-1 nokaslr " + InHaste() + " " + o.Cmdline)
}

// recipe is part of every cache key: raise it when the way an image is made changes.
const recipe = "2"

// Build writes a bootable image to the file out, or finds one in the cache that
// was made of the same kernel, program and options. It needs root, for a loop
// mount, the Go command in the module's tree, and extlinux, e2fsprogs and
// qemu-utils; apt-get and dpkg-deb where Debian's cloud kernel is not installed.
func Build(ctx context.Context, out string, opts Options) error {
	return build(ctx, out, opts, "guest", assemble)
}

// assembler makes an image of a kernel and an initrd.
type assembler func(ctx context.Context, work, out string, k Kernel, ramdisk []byte, opts Options) error

func build(ctx context.Context, out string, opts Options, kind string, assemble assembler) error {
	opts.defaults()
	if opts.Format != "qcow2" && opts.Format != "raw" {
		return fmt.Errorf("guest: unknown format %q", opts.Format)
	}
	if err := os.MkdirAll(opts.CacheDir, 0o755); err != nil {
		return fmt.Errorf("guest: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(opts.CacheDir, "lock"))
	if err != nil {
		return fmt.Errorf("guest: %w", err)
	}
	defer unlock()
	work, err := os.MkdirTemp("", "guest-")
	if err != nil {
		return fmt.Errorf("guest: %w", err)
	}
	defer os.RemoveAll(work)
	k, err := findKernel(ctx, opts)
	if err != nil {
		return err
	}
	init := filepath.Join(work, "init")
	compile := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", init, "strongroom/deploy/guest/init")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := run(compile); err != nil {
		return err
	}
	ramdisk, err := initrd(init, k)
	if err != nil {
		return fmt.Errorf("guest: initrd: %w", err)
	}
	key, err := cacheKey(k, ramdisk, opts)
	if err != nil {
		return fmt.Errorf("guest: %w", err)
	}
	cached := filepath.Join(opts.CacheDir, kind+"-"+key+"."+opts.Format)
	if _, err := os.Stat(cached); err != nil {
		begin := time.Now()
		if err := assemble(ctx, work, cached, k, ramdisk, opts); err != nil {
			return err
		}
		opts.Logger.Info("built the test guest", "image", cached, "kernel", k.Release, "after", time.Since(begin).Round(time.Millisecond))
	}
	if err := copyFile(cached, out); err != nil {
		return fmt.Errorf("guest: %w", err)
	}
	return nil
}

func (o *Options) defaults() {
	if o.CacheDir == "" {
		o.CacheDir = DefaultCacheDir()
	}
	if o.Format == "" {
		o.Format = "qcow2"
	}
	if o.SizeMiB == 0 {
		o.SizeMiB = 40
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// DefaultCacheDir is the folder that tests and development share.
func DefaultCacheDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "strongroom", "guest")
}

// cacheKey names an image by everything that goes into it.
func cacheKey(k Kernel, ramdisk []byte, opts Options) (string, error) {
	image, err := os.ReadFile(k.Image)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %d %q %x %x", recipe, opts.Format, opts.SizeMiB, opts.Cmdline, sha256.Sum256(image), sha256.Sum256(ramdisk))
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// run runs a command and gives the end of what it printed when it fails.
func run(cmd *exec.Cmd) error {
	b, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("guest: %s: %w: %s", filepath.Base(cmd.Path), err, strings.TrimSpace(string(b[max(0, len(b)-800):])))
	}
	return nil
}

// copyFile makes to a copy of from; to appears whole.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	temp, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+".")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = io.Copy(temp, in)
	if err := errors.Join(err, temp.Chmod(0o644), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), to)
}

// lock takes a file's lock; of several builders at once one works and the
// others find its result.
func lock(ctx context.Context, file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
