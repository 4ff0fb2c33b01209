package stack

import (
	"context"
	"syscall"

	"strongroom/deploy/dev/forward"
	"strongroom/deploy/dev/port"
	"strongroom/deploy/dev/process"
)

// child is one of strongroom's own processes.
type child struct {
	layout  Layout
	name    string
	command []string
	address string // answers TCP when the child is ready; "" is ready at once
	netns   string // where it does; "" is this process's
	running *process.Process
}

func (c *child) start(ctx context.Context) error {
	if c.running != nil {
		// Lets go of the pid file of the one that ended.
		if err := c.running.Kill(ctx); err != nil {
			return err
		}
	}
	p, err := process.Start(ctx, process.Config{
		Name: c.name, Command: c.command, LogFile: c.layout.LogFile(c.name), PIDFile: c.layout.PIDFile(c.name),
		OrphanSignal: syscall.SIGTERM,
	})
	if err != nil {
		return err
	}
	c.running = p
	if c.address == "" {
		return nil
	}
	return p.Until(ctx, func(ctx context.Context) error { return answers(ctx, c.netns, c.address) })
}

func (c *child) done() <-chan struct{} { return c.running.Done() }

func (c *child) stop(ctx context.Context) error { return c.running.Stop(ctx) }

func (c *child) kill(ctx context.Context) error { return c.running.Kill(ctx) }

func answers(ctx context.Context, netns, address string) error {
	return forward.Within(netns, func() error { return port.Answers(ctx, address) })
}
