package stack

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// service is what a part of the stack can do. start returns when the service
// answers; done is closed when the process started last has ended.
type service interface {
	start(ctx context.Context) error
	done() <-chan struct{}
	stop(ctx context.Context) error
}

// part is a service that is kept up: one that ends by itself is started again.
type part struct {
	name    string
	service service
	log     *slog.Logger

	cancel context.CancelFunc
	kept   sync.WaitGroup
}

// The waits between restarts of a part.
const (
	firstRestart = 300 * time.Millisecond
	lastRestart  = 5 * time.Second
)

// up starts the part and keeps it up until down.
func (p *part) up(ctx context.Context) error {
	if err := p.start(ctx); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	keep, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.cancel = cancel
	p.kept.Go(func() { p.keep(keep) })
	return nil
}

func (p *part) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return p.service.start(ctx)
}

func (p *part) keep(ctx context.Context) {
	wait := firstRestart
	for {
		begun := time.Now()
		select {
		case <-ctx.Done():
			return
		case <-p.service.done():
		}
		if time.Since(begun) > time.Minute {
			wait = firstRestart
		}
		p.log.WarnContext(ctx, "ended by itself and is started again", "part", p.name, "in", wait)
		for ctx.Err() == nil {
			sleep(ctx, wait)
			wait = min(2*wait, lastRestart)
			if ctx.Err() != nil {
				return
			}
			if err := p.start(ctx); err == nil {
				break
			} else if ctx.Err() == nil {
				p.log.ErrorContext(ctx, "does not start", "part", p.name, "error", err)
			}
		}
	}
}

// down stops the part for good.
func (p *part) down(ctx context.Context) error {
	if p.cancel == nil {
		return nil
	}
	p.cancel()
	p.kept.Wait()
	return p.service.stop(ctx)
}

// mortal is a service of a host, which goes with its machine.
type mortal interface {
	kill(ctx context.Context) error
}

// cut ends the part as the end of its machine does; up starts it again.
func (p *part) cut(ctx context.Context) error {
	p.cancel()
	p.kept.Wait()
	p.cancel = nil
	return p.service.(mortal).kill(ctx)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// writeFile replaces a file at once: whoever reads it sees all of it.
func writeFile(path, text string) error {
	draft := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	if err := os.WriteFile(draft, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(draft, path)
}
