package temporal_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/deploy/dev/process"
	"strongroom/deploy/dev/temporal"
)

func config(t *testing.T) temporal.Config {
	t.Helper()
	binary, err := temporal.Find()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return temporal.Config{Binary: binary, Dir: t.TempDir(), Headless: true}
}

func start(t *testing.T, cfg temporal.Config) *temporal.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := temporal.Start(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(context.Background())) })
	return s
}

func dial(t *testing.T, s *temporal.Server) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: s.Address(), Namespace: s.Namespace()})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func echo(_ workflow.Context, word string) (string, error) { return word, nil }

// A workflow that began before the server was killed ends after it came back.
func TestKillAndGoOn(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Namespace = "vault"
	cfg.SearchAttributes = map[string]string{"Server": "Keyword"}
	first := start(t, cfg)
	require.FileExists(t, first.Database())
	require.Empty(t, first.UI())
	_, err := dial(t, first).ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: "echo", TaskQueue: "q", SearchAttributes: map[string]any{"Server": "s1"}, //nolint:staticcheck // typed ones belong to the workflows' package
	}, echo, "still here")
	require.NoError(t, err)
	require.NoError(t, first.Kill(t.Context()))

	c := dial(t, start(t, cfg))
	w := worker.New(c, "q", worker.Options{})
	w.RegisterWorkflow(echo)
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	var word string
	require.NoError(t, c.GetWorkflow(t.Context(), "echo", "").Get(t.Context(), &word))
	require.Equal(t, "still here", word)
}

func TestUI(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Headless = false
	s := start(t, cfg)
	// The UI comes up beside the frontend, a moment later.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		page, err := http.Get(s.UI())
		require.NoError(c, err)
		defer page.Body.Close()
		body, err := io.ReadAll(page.Body)
		require.NoError(c, err)
		require.Equal(c, http.StatusOK, page.StatusCode)
		require.Contains(c, string(body), "<html")
	}, time.Minute, 50*time.Millisecond)
}

func TestTwoAtOnceAreRefused(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	s := start(t, cfg)
	_, err := temporal.Start(t.Context(), cfg)
	require.ErrorIs(t, err, process.ErrInUse)
	require.True(t, s.Running())
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	first := start(t, cfg)
	other := cfg
	other.Dir = t.TempDir()
	_, taken, err := net.SplitHostPort(first.Address())
	require.NoError(t, err)
	other.Port, err = strconv.Atoi(taken)
	require.NoError(t, err)
	_, err = temporal.Start(t.Context(), other)
	require.ErrorContains(t, err, "port "+taken+" is taken")
	require.NoFileExists(t, filepath.Join(other.Dir, "temporal.pid"))
}
