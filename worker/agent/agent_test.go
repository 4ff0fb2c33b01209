package agent_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/worker/agent"
)

func TestConsoleIsHandedToSignedRequestsOnly(t *testing.T) {
	t.Parallel()
	known := compute.ServerID{UUID: uuid.New()}
	key, now := []byte("0123456789abcdef0123456789abcdef"), time.Now()
	server := httptest.NewServer(agent.Server{
		Key: key, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
		Console: func(_ context.Context, id compute.ServerID, lines int) (string, error) {
			if id != known {
				return "", compute.Errorf(compute.NotFound, "none")
			}
			require.Equal(t, 7, lines)
			return "boot\nready\n", nil
		},
	}.Handler())
	defer server.Close()
	ask := func(key []byte, at time.Time, id compute.ServerID) ([]byte, error) {
		c := agent.Client{Key: key, HTTP: http.DefaultClient, Now: func() time.Time { return at }}
		return c.Console(t.Context(), server.URL, id, 7)
	}

	text, err := ask(key, now, known)
	require.NoError(t, err)
	require.Equal(t, "boot\nready\n", string(text))

	_, err = ask(key, now, compute.ServerID{UUID: uuid.New()})
	require.Equal(t, compute.NotFound, compute.KindOf(err))
	_, err = ask([]byte("another key"), now, known)
	require.Equal(t, compute.Unavailable, compute.KindOf(err))
	_, err = ask(key, now.Add(-10*time.Minute), known)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "an old request is not answered")

	resp, err := http.Get(server.URL + "/console/" + known.String())
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
}
