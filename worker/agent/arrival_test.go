package agent_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/worker/agent"
	"strongroom/worker/pki"
)

// A host moves a running server to another one with what libvirt says and with streams that end in
// each direction by itself; another host, or one that the gateway does not know of, moves nothing.
func TestAServerArrives(t *testing.T) {
	t.Parallel()
	a := authority(t)
	from, thief := openNode(t, a, "from", t.TempDir()), openNode(t, a, "thief", t.TempDir())
	to := openNode(t, a, "to", t.TempDir())
	of := compute.Arrival{Server: compute.ServerID{UUID: uuid.New()}, Operation: "req-1"}
	expects := func(got compute.Arrival, by compute.HostID) error {
		if got == of && by == from.Host {
			return nil
		}
		return compute.Errorf(compute.Forbidden, "no such server is expected from there")
	}
	granted := true
	socket := filepath.Join(t.TempDir(), "s")
	qemu, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer func() { _ = qemu.Close() }()
	go func() { // answers all that it was sent, twice, once that has ended
		for {
			conn, err := qemu.Accept()
			if err != nil {
				return
			}
			data, _ := io.ReadAll(conn)
			_, _ = conn.Write(append(data, data...))
			_ = conn.Close()
		}
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	to.URL = "https://" + listener.Addr().String()
	server := &http.Server{ReadHeaderTimeout: time.Minute, WriteTimeout: 2 * time.Second, Handler: agent.Server{
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Arrivals: &agent.Arrivals{
			Grants: func(context.Context, compute.Arrival, *x509.Certificate) error {
				if granted {
					return nil
				}
				return compute.Errorf(compute.Forbidden, "no operation moves it")
			},
			Prepare: func(_ context.Context, got compute.Arrival, by compute.HostID, say domain.Leaving) ([]byte, error) {
				time.Sleep(2500 * time.Millisecond) // to start a QEMU takes longer than an answer may
				return append(say.Cookie, "+there"...), expects(got, by)
			},
			Open: func(_ context.Context, got compute.Arrival, by compute.HostID, _ string) (domain.Stream, error) {
				if err := expects(got, by); err != nil {
					return nil, err
				}
				return net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: socket})
			},
			Finish: func(_ context.Context, got compute.Arrival, by compute.HostID, cookie []byte, givenUp bool) (domain.Outcome, error) {
				return domain.Outcome{Runs: !givenUp, Cookie: cookie}, expects(got, by)
			},
		},
	}.Handler()}
	go func() { _ = server.Serve(tls.NewListener(listener, to.identity.Server())) }()
	t.Cleanup(func() { require.NoError(t, server.Close()) })

	c := agent.Client{Identity: from.identity, Accepts: everybody}
	cookie, err := c.Prepare(t.Context(), to.Agent, of, domain.Leaving{Cookie: []byte("here"), Document: "<domain/>"})
	require.NoError(t, err)
	require.Equal(t, "here+there", string(cookie))
	stream, err := c.Stream(t.Context(), to.Agent, of, compute.StreamState)
	require.NoError(t, err)
	sent := bytes.Repeat([]byte("memory"), 100_000)
	_, err = stream.Write(sent)
	require.NoError(t, err)
	require.NoError(t, stream.CloseWrite())
	back, err := io.ReadAll(stream)
	require.NoError(t, err)
	require.Equal(t, append(bytes.Clone(sent), sent...), back)
	require.NoError(t, stream.Close())
	got, err := c.Finish(t.Context(), to.Agent, of, []byte("end"), false)
	require.NoError(t, err)
	require.Equal(t, domain.Outcome{Runs: true, Cookie: []byte("end")}, got)

	refused := func(by *pki.Identity, of compute.Arrival) {
		t.Helper()
		c := agent.Client{Identity: by, Accepts: everybody}
		_, err := c.Prepare(t.Context(), to.Agent, of, domain.Leaving{})
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
		_, err = c.Stream(t.Context(), to.Agent, of, compute.StreamDisks)
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
		_, err = c.Finish(t.Context(), to.Agent, of, nil, false)
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	}
	refused(thief.identity, of)
	refused(from.identity, compute.Arrival{Server: of.Server, Operation: "req-before"})
	api, err := a.Process(pki.API)
	require.NoError(t, err)
	refused(api, of)
	granted = false
	refused(from.identity, of)
}
