package agent_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/worker/agent"
	"strongroom/worker/pki"
)

func serve(t *testing.T, own *pki.Identity, handler http.Handler) (url string) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", own.Server())
	require.NoError(t, err)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	return "https://" + listener.Addr().String()
}

// TestLowConsoleIsHandedToTheAPIOnly: the api alone gets a console log, and from the right host
// alone. Who else asks is in the log.
func TestLowConsoleIsHandedToTheAPIOnly(t *testing.T) {
	t.Parallel()
	authority, err := pki.Ensure(t.TempDir() + "/ca")
	require.NoError(t, err)
	stranger, err := pki.Ensure(t.TempDir() + "/ca")
	require.NoError(t, err)
	identity := func(a *pki.Authority, name pki.Name) *pki.Identity {
		id, err := a.Process(name)
		require.NoError(t, err)
		return id
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "inside") }))
	defer elsewhere.Close()
	var log logged
	known, host := compute.ServerID{UUID: uuid.New()}, compute.HostID{UUID: uuid.New()}
	url := serve(t, identity(authority, pki.HostName(host)), agent.Server{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Console: func(_ context.Context, id compute.ServerID, lines int) (string, error) {
			if id != known {
				return "", compute.Errorf(compute.NotFound, "none")
			}
			if lines != 7 {
				return "", compute.Errorf(compute.Invalid, "%d lines", lines)
			}
			return "boot\nready\n", nil
		},
		Diagnose: func(_ context.Context, id compute.ServerID) (compute.Diagnostics, error) {
			if id != known {
				return compute.Diagnostics{}, compute.Errorf(compute.NotFound, "none")
			}
			return compute.Diagnostics{State: compute.PowerRunning, CPUTimes: []int64{7}}, nil
		},
	}.Handler())
	ask := func(id *pki.Identity, host compute.HostID, url string, server compute.ServerID) ([]byte, error) {
		return agent.Client{Identity: id}.Console(t.Context(), host, url, server, 7)
	}

	api := identity(authority, pki.API)
	text, err := ask(api, host, url, known)
	require.NoError(t, err)
	require.Equal(t, "boot\nready\n", string(text))
	_, err = ask(api, host, url, compute.ServerID{UUID: uuid.New()})
	require.Equal(t, compute.NotFound, compute.KindOf(err))

	told, err := agent.Client{Identity: api}.Diagnostics(t.Context(), host, url, known)
	require.NoError(t, err)
	require.Equal(t, compute.Diagnostics{State: compute.PowerRunning, CPUTimes: []int64{7}}, told)
	_, err = agent.Client{Identity: api}.Diagnostics(t.Context(), host, url, compute.ServerID{UUID: uuid.New()})
	require.Equal(t, compute.NotFound, compute.KindOf(err))
	_, err = agent.Client{Identity: identity(authority, pki.HostName(host))}.Diagnostics(t.Context(), host, url, known)
	require.Equal(t, compute.Unavailable, compute.KindOf(err))
	require.Len(t, log.take("refused: not this cloud's api"), 1)

	for name, call := range map[string]func() error{
		"another host":            func() error { _, err := ask(identity(authority, pki.HostName(host)), host, url, known); return err },
		"an api of another cloud": func() error { _, err := ask(identity(stranger, pki.API), host, url, known); return err },
		"of another host": func() error {
			_, err := ask(api, compute.HostID{UUID: uuid.New()}, url, known)
			return err
		},
		"to where a host likes": func() error {
			url := serve(t, identity(authority, pki.HostName(host)), http.RedirectHandler(elsewhere.URL, http.StatusFound))
			_, err := ask(api, host, url, known)
			return err
		},
		"in the clear": func() error { _, err := ask(api, host, "http"+url[len("https"):], known); return err },
	} {
		require.Equal(t, compute.Unavailable, compute.KindOf(call()), name)
		lines := log.take("level=WARN msg=\"refused: not this cloud's api\" peer=" + string(pki.HostName(host)) + " address=127.0.0.1:")
		require.Equal(t, name == "another host", len(lines) == 1, name)
	}
	anybody := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := anybody.Get(url + "/console/" + known.String())
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
	require.Len(t, log.take("msg=\"refused: not this cloud's api\" peer=\"\""), 1)
}
