package domain

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"strongroom/compute"
)

// stopAllTime bounds what libvirt gets to stop guests before their processes are killed. It gives each
// QEMU ten seconds to write what it holds.
const stopAllTime = 15 * time.Second

// mostStopped is how many guests are stopped side by side.
const mostStopped = 16

// StopAll ensures that none of strongroom's guests runs on a host, whatever it is at: it needs
// libvirtd or, where that is dead or hangs, the files with the process ids that it wrote. Their domains and disks
// stay as they are. Others' domains are left alone.
func StopAll(ctx context.Context, c *Client, log *slog.Logger) error {
	limited, cancel := context.WithTimeout(ctx, stopAllTime)
	defer cancel()
	asked := destroyAll(limited, c, log)
	killed, err := killAll(ctx, c, log)
	switch {
	case err != nil:
		return errors.Join(asked, err)
	case ctx.Err() != nil:
		return ctx.Err()
	case asked != nil && killed:
		return nil // what could not be stopped was killed; libvirt shows the next time whether that is all
	}
	return asked
}

// destroyAll has libvirt stop them.
func destroyAll(ctx context.Context, c *Client, log *slog.Logger) error {
	return c.Do(ctx, func(l *libvirt.Libvirt) error {
		active, _, err := l.ConnectListAllDomains(1, libvirt.ConnectListDomainsActive)
		if err != nil {
			return err
		}
		failed := make([]error, len(active))
		var all errgroup.Group
		all.SetLimit(mostStopped)
		for i, d := range active {
			server := serverOfDomain(d)
			if d.Name != compute.InstanceName(server) {
				continue
			}
			all.Go(func() error {
				if err := gone(l.DomainDestroyFlags(d, libvirt.DomainDestroyDefault)); err != nil {
					failed[i] = fmt.Errorf("server %s may still run: %w", server, err)
					return nil
				}
				log.WarnContext(ctx, "stopped the guest of a server", "server", server)
				return nil
			})
		}
		_ = all.Wait()
		return errors.Join(failed...)
	})
}

// killAll kills the QEMUs of which libvirtd has not noted that they have ended.
func killAll(ctx context.Context, c *Client, log *slog.Logger) (killed bool, err error) {
	files, err := filepath.Glob(filepath.Join(filepath.Dir(cmp.Or(c.Socket, DefaultSocket)), "qemu", "*.pid"))
	if err != nil || len(files) == 0 {
		return false, err
	}
	running, err := qemus()
	if err != nil {
		return false, err
	}
	for _, file := range files {
		text, rerr := os.ReadFile(file)
		if errors.Is(rerr, os.ErrNotExist) {
			continue
		}
		pid, perr := strconv.Atoi(strings.TrimSpace(string(text)))
		if rerr = errors.Join(rerr, perr); rerr != nil {
			err = errors.Join(err, rerr)
			continue
		}
		for _, q := range running {
			if filepath.Base(file) != compute.InstanceName(q.server)+".pid" || q.known != pid {
				continue
			}
			if kerr := unix.Kill(q.pid, unix.SIGKILL); kerr != nil && !errors.Is(kerr, unix.ESRCH) {
				err = errors.Join(err, fmt.Errorf("server %s may still run: %w", q.server, kerr))
				continue
			}
			killed = true
			log.WarnContext(ctx, "killed the guest of a server: libvirt did not stop it", "server", q.server, "pid", q.pid)
		}
	}
	return killed, err
}

// qemu is a process that runs a server.
type qemu struct {
	server compute.ServerID
	pid    int
	known  int // its id where libvirtd runs, which may be in a container
}

func qemus() (all []qemu, err error) {
	entries, err := os.ReadDir("/proc")
	for _, e := range entries {
		pid, perr := strconv.Atoi(e.Name())
		if perr != nil {
			continue
		}
		// One that ends meanwhile has neither.
		arguments, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		status, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "status"))
		_, after, ok := bytes.Cut(arguments, []byte("\x00-uuid\x00"))
		text, _, _ := bytes.Cut(after, []byte{0})
		id, ierr := uuid.ParseBytes(text)
		if !ok || ierr != nil {
			continue
		}
		all = append(all, qemu{compute.ServerID{UUID: id}, pid, innermost(string(status), pid)})
	}
	return all, err
}

// innermost is the id of a process in its own pid namespace.
func innermost(status string, pid int) int {
	for line := range strings.Lines(status) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			fields := strings.Fields(ids)
			if n, err := strconv.Atoi(fields[len(fields)-1]); err == nil {
				return n
			}
		}
	}
	return pid
}
