package libvirtd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
)

// capabilities is where libvirtd remembers what it probed of each QEMU binary.
// An entry names the versions and times it was made with and is probed again
// when they changed, so an old copy does no harm.
const capabilities = "qemu/capabilities"

// seedCapabilities gives a folder what another libvirtd has probed, and keeps
// the cache locked: of several that start at once on a fresh machine one
// probes (8 s, both cores), and the others find its result.
func seedCapabilities(ctx context.Context, cacheDir, dir string) (unlock func(), err error) {
	if cacheDir == "" {
		return func() {}, nil
	}
	if unlock, err = lock(ctx, cacheDir); err != nil {
		return nil, err
	}
	if err := copyFiles(filepath.Join(cacheDir, capabilities), filepath.Join(dir, "cache", capabilities)); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// ready waits for the socket, then for the answer to a question that needs the
// QEMU driver, and keeps what that probed.
func (d *Daemon) ready(ctx context.Context) error {
	var conn net.Conn
	err := poll(ctx, d.daemon, func() bool {
		c, err := net.DialTimeout("unix", d.Socket(), time.Second)
		conn = c
		return err == nil
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	l := libvirt.NewWithDialer(dialers.NewAlreadyConnected(conn))
	if err := l.Connect(); err != nil {
		return fmt.Errorf("connect: %w", errors.Join(err, ctx.Err()))
	}
	if _, err := l.ConnectGetCapabilities(); err != nil {
		return fmt.Errorf("capabilities: %w", errors.Join(err, ctx.Err()))
	}
	if d.cfg.CacheDir == "" {
		return nil
	}
	return copyFiles(filepath.Join(d.cfg.Dir, "cache", capabilities), filepath.Join(d.cfg.CacheDir, capabilities))
}

// copyFiles copies the files of a folder that are missing or differ. Others may
// read or copy at the same time: a file appears whole.
func copyFiles(from, to string) error {
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".xml" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			return err
		}
		target := filepath.Join(to, e.Name())
		if old, err := os.ReadFile(target); err == nil && bytes.Equal(old, b) {
			continue
		}
		temp := fmt.Sprintf("%s.%d.tmp", target, os.Getpid())
		if err := os.WriteFile(temp, b, 0o600); err != nil {
			return err
		}
		if err := os.Rename(temp, target); err != nil {
			return err
		}
	}
	return nil
}

// lock takes the cache folder's lock.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
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
		if err := pause(ctx); err != nil {
			f.Close()
			return nil, err
		}
	}
}

// DefaultCacheDir is a CacheDir that tests and development share.
func DefaultCacheDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "strongroom", "libvirtd")
}
