package gateway_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

type bornKey struct{}

// Where a gateway dies with its machine, nothing ends its connections. A host whose call had no answer goes on over new ones, which reach
// the next gateway.
func TestAGatewayThatDiedIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("a")
	own, err := c.authority.Process(pki.Gateway)
	require.NoError(t, err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", own.Server())
	require.NoError(t, err)
	const connections = 4
	var died atomic.Bool
	var together sync.WaitGroup
	together.Add(connections)
	server := &http.Server{
		ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, bornKey{}, died.Load())
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch next, _ := r.Context().Value(bornKey{}).(bool); {
			case !died.Load():
				together.Done()
				together.Wait() // each has a connection of its own
			case !next:
				<-r.Context().Done()
				return
			}
			_, _ = w.Write([]byte("[]"))
		}),
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	client := gateway.Dial("https://"+listener.Addr().String(), pki.NewIdentity(h.got.Cert, h.keys.Sign, h.got.CA))
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			_, err := client.Seen(t.Context())
			assert.NoError(t, err)
		})
	}
	all.Wait()

	died.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = client.Seen(ctx)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	patient, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = client.Seen(patient)
	require.NoError(t, err)
}
