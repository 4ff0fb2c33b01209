package temporal_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/postgres"
	"strongroom/deploy/dev/temporal"
	"strongroom/durable"
)

// As operators run it: on PostgreSQL, whose two databases migrate makes, with certificates.
// A start on a database that is up to date changes nothing.
func TestOnPostgreSQL(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it starts PostgreSQL")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("/tmp", "srpg") // short: there is a unix socket in it
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o711))
	database, err := postgres.Start(ctx, postgres.Config{Dir: dir + "/pg", PIDFile: dir + "/pg.pid", LogFile: dir + "/pg.log", Volatile: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, database.Stop(context.Background())) })

	b := besiege(t, func(c *temporal.Config) { c.Database = database.URL() })
	control := b.control()
	a := newHost()
	b.honestHost(a)
	b.ends(b.begin(control, durable.HostQueue(a), "first"), "first done")
	require.NoFileExists(t, b.Database())
	b.again()
	b.ends(b.begin(control, durable.HostQueue(a), "second"), "second done")
}
