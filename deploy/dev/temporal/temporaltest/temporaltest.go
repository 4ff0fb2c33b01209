// Package temporaltest gives tests a real Temporal server of their own.
package temporaltest

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"strongroom/deploy/dev/temporal"
	"strongroom/durable"
)

// BinaryVariable names the environment variable that points tests at a strongroom-temporal
// other than the one that temporal.Find finds.
const BinaryVariable = "STRONGROOM_TEMPORAL_BIN"

// Keys are those of all clients and workers of tests.
var Keys = durable.ControlKeys([]byte("a secret of tests"))

// Start runs a server until the test ends. Where none is built the test is
// skipped, in CI it fails. with changes how the server is set up.
func Start(t testing.TB, with ...func(*temporal.Config)) *temporal.Server {
	t.Helper()
	binary := os.Getenv(BinaryVariable)
	if binary == "" {
		var err error
		if binary, err = temporal.Find(); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg := temporal.Config{Binary: binary, Dir: t.TempDir(), Headless: true}
	for _, change := range with {
		change(&cfg)
	}
	server, err := temporal.Start(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	return server
}

// Client is a client of a server of its own, which knows strongroom's search
// attributes.
func Client(t testing.TB) client.Client {
	t.Helper()
	return Dial(t, Start(t))
}

// Dial is a client of a server that Start started, as Client is.
func Dial(t testing.TB, server *temporal.Server) client.Client {
	t.Helper()
	c, err := durable.Dial(durable.ClientConfig{
		Address: server.Address(), Namespace: server.Namespace(), Keys: Keys, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	require.NoError(t, durable.RegisterSearchAttributes(t.Context(), c, server.Namespace()))
	return c
}
