package stack

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"
)

// A host of several has a switch: while the file off is in its folder the host is off, as a
// machine whose power went. Worker, libvirtd, QEMU and swtpm get SIGKILL, nothing is left of
// its /run, and nothing is started again. The file isoff follows.

const switchPause = 100 * time.Millisecond

func (h Host) offFile() string   { return h.path("off") }
func (h Host) isOffFile() string { return h.path("isoff") }

// PowerOff takes a host of a running stack off its power and returns when nothing of it runs.
func (h Host) PowerOff(ctx context.Context) error {
	if err := writeFile(h.offFile(), ""); err != nil {
		return err
	}
	return h.await(ctx, true)
}

// PowerOn gives it back, and returns when its libvirtd and its worker answer.
func (h Host) PowerOn(ctx context.Context) error {
	if err := removeFile(h.offFile()); err != nil {
		return err
	}
	return h.await(ctx, false)
}

func (h Host) await(ctx context.Context, off bool) error {
	for exists(h.isOffFile()) != off {
		sleep(ctx, switchPause)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// switches are those of a stack's hosts.
type switches struct {
	watched sync.WaitGroup
	cancel  context.CancelFunc // nil: there are none
}

func (s *switches) end() {
	if s.cancel != nil {
		s.cancel()
		s.watched.Wait()
	}
}

// watchSwitches does what the hosts' switches say, until Down.
func (s *Stack) watchSwitches() {
	ctx, cancel := context.WithCancel(s.ctx)
	s.switches.cancel = cancel
	for _, h := range s.hosts() {
		var parts []*part // the worker first, which needs libvirtd
		for _, p := range s.parts {
			if p.name == h.Part("host") || p.name == h.Part("libvirtd") {
				parts = append([]*part{p}, parts...)
			}
		}
		s.switches.watched.Go(func() { s.watchSwitch(ctx, h, parts) })
	}
}

func (s *Stack) watchSwitch(ctx context.Context, h Host, parts []*part) {
	on := true
	for ctx.Err() == nil {
		var err error
		switch off := exists(h.offFile()); {
		case off && on:
			on, err = false, cutAll(ctx, parts)
			err = errors.Join(err, writeFile(h.isOffFile(), ""))
		case !off && !on:
			if err = startAll(ctx, parts); err == nil {
				on, err = true, removeFile(h.isOffFile())
			}
		}
		if err != nil {
			s.cfg.Logger.ErrorContext(ctx, "switching a host", "host", h.Number, "error", err)
		}
		sleep(ctx, switchPause)
	}
}

func cutAll(ctx context.Context, parts []*part) error {
	var problems []error
	for _, p := range parts {
		problems = append(problems, p.cut(ctx))
	}
	return errors.Join(problems...)
}

// startAll starts those that do not run, the last first.
func startAll(ctx context.Context, parts []*part) error {
	for i := len(parts) - 1; i >= 0; i-- {
		if parts[i].cancel != nil {
			continue
		}
		if err := parts[i].up(ctx); err != nil {
			return err
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
