package worker

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/worker/gateway"
)

// losing is a gateway that leaves some calls without an answer.
type losing struct {
	Gateway
	loses func(call int) bool // of those that say that the host runs, counted from 1
	calls int
	heard []time.Time // when it answered one
}

func (l *losing) Seen(ctx context.Context) ([]gateway.AtRest, error) {
	if l.calls++; l.loses(l.calls) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	l.heard = append(l.heard, time.Now())
	return []gateway.AtRest{{}}, nil
}

func (l *losing) Evacuated(context.Context) ([]gateway.Evacuated, error) { return nil, nil }

// A host that runs does not count as down because a gateway died with a call, or because its hypervisor does not answer.
func TestAHostThatRunsIsHeardOfInTime(t *testing.T) {
	t.Parallel()
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, loses := range map[string]func(int) bool{
		"a hypervisor that does not answer": func(int) bool { return false },
		"and every other answer is lost":    func(call int) bool { return call%2 == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := &losing{loses: loses}
				h := Host{
					Gateway: g, Logger: slog.New(slog.DiscardHandler),
					Describe:    func(ctx context.Context) (gateway.HostReport, error) { return gateway.HostReport{}, hangs(ctx) },
					PowerStates: func(ctx context.Context) (map[compute.ServerID]compute.PowerState, error) { return nil, hangs(ctx) },
				}
				e := &Eviction{Evacuated: g.Evacuated}
				require.NoError(t, e.Run(t.Context()))
				ctx, stop := context.WithCancel(t.Context())
				last := time.Now()
				go h.keepSeen(ctx, e)
				go h.keepDescribed(ctx, e)
				time.Sleep(20 * compute.HostTimeout)
				stop()
				synctest.Wait()
				require.NotEmpty(t, g.heard)
				for _, at := range append(g.heard, last.Add(20*compute.HostTimeout)) {
					require.Less(t, at.Sub(last), compute.HostTimeout)
					last = at
				}
			})
		})
	}
}
