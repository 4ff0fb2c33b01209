package record_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// TestAnOutageIsWorthARetry, wherever it hits.
func TestAnOutageIsWorthARetry(t *testing.T) {
	t.Parallel()
	in := durable.OperationInput{Operation: compute.NewOperationID(), Server: compute.ServerID{UUID: uuid.New()}}
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nothing")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	nobody := &record.Activities{Pool: pool}
	_, err = nobody.Advance(t.Context(), record.AdvanceInput{OperationInput: in, Close: &record.Close{}, Open: &record.Open{}})
	require.True(t, compute.Is(err, compute.Unavailable), "%v", err)
	err = nobody.Settle(t.Context(), record.SettleInput{OperationInput: in})
	require.True(t, compute.Is(err, compute.Unavailable), "%v", err)
}

func TestALostConnectionIsWorthARetry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	// The server's row is locked, so the write hangs until its backend is killed.
	tx, err := b.Pool.Begin(b.ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(b.ctx)) }()
	_, err = tx.Exec(b.ctx, "SELECT 1 FROM servers FOR UPDATE")
	require.NoError(t, err)
	result := make(chan error, 1)
	go func() { result <- b.task(in, compute.TaskSpawning) }()
	require.Eventually(t, func() bool {
		var killed int
		err := b.Pool.QueryRow(b.ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&killed)
		return err == nil && killed > 0
	}, timeout, tick)
	require.True(t, compute.Is(<-result, compute.Unavailable))
}

func TestALockThatDoesNotComeIsWorthARetry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	tx, err := b.Pool.Begin(b.ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(b.ctx)) }()
	_, err = tx.Exec(b.ctx, "SELECT 1 FROM servers FOR UPDATE")
	require.NoError(t, err)
	err = b.task(in, compute.TaskSpawning)
	require.True(t, compute.Is(err, compute.Unavailable), "%v", err)
}

// TestWhatTheDatabaseRefusesIsNoOutage: the same would be refused for ever.
func TestWhatTheDatabaseRefusesIsNoOutage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	err := b.saveOptions(in, record.Option{Disk: b.disk(in), Format: compute.DiskFormat(strings.Repeat("x", 200))})
	require.Error(t, err, "there is no room for it")
	require.Empty(t, compute.KindOf(err), "%v", err)
}
