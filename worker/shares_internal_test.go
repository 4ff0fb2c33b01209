package worker

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/worker/gateway"
)

// S6: guests are kept from the storages of shares before a host says that it runs, and it looks for that again and again, also after it did not work.
func TestS6AHostShieldsShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		looks, away := 0, errors.New("away")
		nothing := func(context.Context) error { return nil }
		h := Host{
			Gateway: &losing{}, Logger: slog.New(slog.DiscardHandler), CloseIdle: nothing, NoAutostart: nothing,
			ShieldShares: func(context.Context) error { looks++; return away },
			Describe: func(context.Context) (gateway.HostReport, error) {
				require.Equal(t, 1, looks)
				return gateway.HostReport{}, away
			},
		}
		require.ErrorIs(t, h.Run(t.Context()), away)
		ctx, stop := context.WithCancel(t.Context())
		go h.keepClosed(ctx)
		time.Sleep(3*seenEvery + time.Second)
		stop()
		synctest.Wait()
		require.Equal(t, 4, looks)
	})
}
