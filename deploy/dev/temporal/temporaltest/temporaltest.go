// Package temporaltest gives tests a real Temporal server, or a namespace on one.
package temporaltest

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

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
	server := start(t, t.TempDir(), with...)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	return server
}

func start(t testing.TB, dir string, with ...func(*temporal.Config)) *temporal.Server {
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
	cfg := temporal.Config{Binary: binary, Dir: dir, Headless: true}
	for _, change := range with {
		change(&cfg)
	}
	server, err := temporal.Start(ctx, cfg)
	require.NoError(t, err)
	return server
}

// shared is the server of tests that need no more than a namespace. It runs while one of them does.
var shared struct {
	sync.Mutex
	server *temporal.Server
	dir    string
	users  int
}

// Client is a client of a namespace of its own, which knows strongroom's search attributes, on a server that the tests of a package share.
func Client(t testing.TB) client.Client {
	t.Helper()
	server, namespace := share(t), "test-"+uuid.NewString()
	first, err := durable.Dial(config(server, server.Namespace()))
	require.NoError(t, err)
	defer first.Close()
	_, err = first.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	require.NoError(t, err)
	c := dial(t, server, namespace)
	require.NoError(t, durable.RegisterSearchAttributes(t.Context(), c, namespace))
	return c
}

func share(t testing.TB) *temporal.Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.users == 0 {
		dir, err := os.MkdirTemp("", "temporal")
		require.NoError(t, err)
		shared.dir = dir
		defer func() { // it is skipped, or has failed
			if shared.users == 0 {
				_ = os.RemoveAll(dir)
			}
		}()
		shared.server = start(t, dir)
	}
	shared.users++
	t.Cleanup(func() {
		shared.Lock()
		defer shared.Unlock()
		if shared.users--; shared.users == 0 {
			assert.NoError(t, shared.server.Stop(context.Background()))
			assert.NoError(t, os.RemoveAll(shared.dir))
		}
	})
	return shared.server
}

// Dial is a client of a server that Start started. Its namespace knows strongroom's search attributes, too.
func Dial(t testing.TB, server *temporal.Server) client.Client {
	t.Helper()
	c := dial(t, server, server.Namespace())
	require.NoError(t, durable.RegisterSearchAttributes(t.Context(), c, server.Namespace()))
	return c
}

func dial(t testing.TB, server *temporal.Server, namespace string) client.Client {
	t.Helper()
	c, err := durable.Dial(config(server, namespace))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func config(server *temporal.Server, namespace string) durable.ClientConfig {
	return durable.ClientConfig{Address: server.Address(), Namespace: namespace, Keys: Keys, Logger: slog.New(slog.DiscardHandler)}
}
