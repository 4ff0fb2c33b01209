// Package ceph runs Ceph on one node, for tests: a monitor, a manager, one OSD on a
// sparse file and a metadata server with the file system cephfs, from the
// distribution's packages, on loopback, with everything they keep in one folder.
package ceph

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"strongroom/deploy/dev/port"
	"strongroom/deploy/dev/process"
)

// Ports are what the monitor listens on, for the versions 2 and 1 of Ceph's
// messenger. The other daemons find ports of their own from 6800 on.
type Ports struct{ V2, V1 int }

// Config says which cluster to run.
type Config struct {
	Dir    string // holds all state, mode 0700
	RunDir string // pid files; default Dir
	LogDir string // default Dir
	Ports  Ports
	Logger *slog.Logger
}

// Cluster is a running cluster.
type Cluster struct {
	cfg       Config
	processes []*process.Process
}

const (
	// fsID names the cluster, diskID its disk. Who finds it by its monitor's
	// address needs no other name.
	fsID   = "5f6f5d3c-5a51-4a52-9c3d-7a7c0f1d0c01"
	diskID = "5f6f5d3c-5a51-4a52-9c3d-7a7c0f1d0c02"
	// diskBytes is what the sparse disk says it has: Manila's scheduler counts all
	// that its shares could ever fill.
	diskBytes = 200 << 30
)

// Start starts the folder's cluster, which is made if there is none, and returns
// once its file system serves clients. Daemons that a process which was killed left
// running are ended first.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	for _, dir := range []*string{&cfg.RunDir, &cfg.LogDir} {
		if *dir == "" {
			*dir = cfg.Dir
		}
	}
	begin := time.Now()
	c := &Cluster{cfg: cfg}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("ceph: %w", err), c.Stop(context.WithoutCancel(ctx)))
	}
	cfg.Logger.Info("ceph is up", "monitor", c.Monitor(), "after", time.Since(begin).Round(time.Millisecond))
	return c, nil
}

// Monitor is the address that clients mount from.
func (c *Cluster) Monitor() string { return fmt.Sprintf("127.0.0.1:%d", c.cfg.Ports.V1) }

// ConfFile is what Manila reads. Beside it lies the keyring of each entity.
func (c *Cluster) ConfFile() string { return c.file("ceph.conf") }

// Pool makes a pool for RBD images, and a user who may use it and no other. conf is
// what the user's commands read, keyring has the user's key.
func (c *Cluster) Pool(ctx context.Context, name, user string) (conf, keyring string, err error) {
	conf, keyring = c.file("client.conf"), c.file("keyring.client."+user)
	return conf, keyring, c.setup(ctx, "pool", name, user, keyring)
}

// Stop ends the daemons, as a crash would: what they acknowledged is on the disk,
// and an orderly end takes seconds. The state stays in the folder.
func (c *Cluster) Stop(ctx context.Context) error {
	var group errgroup.Group
	for _, p := range c.processes {
		group.Go(func() error { return p.Stop(ctx) })
	}
	return group.Wait()
}

func (c *Cluster) start(parent context.Context) error {
	// What waits for the cluster ends with the first daemon that does.
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	launch := func(kind, id string, before func(context.Context) error) (*process.Process, error) {
		p, err := c.launch(parent, kind, id, before)
		if err != nil {
			return nil, err
		}
		c.processes = append(c.processes, p)
		go func() {
			select {
			case <-p.Done():
				cancel(p.Ended())
			case <-ctx.Done():
			}
		}()
		return p, nil
	}
	var isNew bool
	monitor, err := launch("mon", "a", func(ctx context.Context) (err error) { // the folder is this process's by then
		isNew, err = c.prepare(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if err := monitor.Until(ctx, c.dial); err != nil {
		return err
	}
	if !isNew {
		// Who waits would take those for the ones to come.
		if err := c.setup(ctx, "again"); err != nil {
			return err
		}
	}
	for _, kind := range []string{"mgr", "mds"} {
		if _, err := launch(kind, "a", nil); err != nil {
			return err
		}
	}
	if isNew {
		if err := c.setup(ctx, "new", diskID); err != nil {
			return err
		}
		if err := c.keep(); err != nil {
			return err
		}
	}
	if _, err := launch("osd", "0", nil); err != nil {
		return err
	}
	return c.setup(ctx, "wait")
}

// launch starts a daemon in the foreground: as a daemon, the manager's modules
// cannot write to the standard error output, and fail.
func (c *Cluster) launch(ctx context.Context, kind, id string, before func(context.Context) error) (*process.Process, error) {
	name := "ceph-" + kind
	return process.Start(ctx, process.Config{
		Name: name, Command: []string{name, "-f", "-c", c.ConfFile(), "-i", id}, Dir: c.cfg.Dir, Env: environment,
		LogFile: filepath.Join(c.cfg.LogDir, name+".log"), PIDFile: filepath.Join(c.cfg.RunDir, name+".pid"),
		StopSignal: syscall.SIGKILL, OrphanSignal: syscall.SIGKILL, Before: before,
	})
}

func (c *Cluster) dial(ctx context.Context) error {
	return port.Answers(ctx, fmt.Sprintf("127.0.0.1:%d", c.cfg.Ports.V2))
}

// setup runs setup.py, whose steps may be taken twice. Ceph's client aborts or crashes now and then when
// its settings come from the monitor while they are read (boost::bad_get): it is started again.
func (c *Cluster) setup(ctx context.Context, arguments ...string) error {
	var err error
	for range 3 {
		err = c.run(ctx, "/usr/bin/python3", append([]string{c.file("setup.py"), c.ConfFile()}, arguments...)...)
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			break
		}
		if signal := exit.Sys().(syscall.WaitStatus).Signal(); signal != syscall.SIGABRT && signal != syscall.SIGSEGV {
			break
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// Installed reports whether the packages are.
func Installed() bool {
	for _, program := range []string{"ceph-mon", "ceph-mgr", "ceph-osd", "ceph-mds", "ceph-fuse"} {
		if _, err := exec.LookPath(program); err != nil {
			return false
		}
	}
	return true
}
