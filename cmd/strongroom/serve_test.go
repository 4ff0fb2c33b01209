package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A service that is told to stop answers what it was asked before it ends.
func TestServeAnswersBeforeItEnds(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	asked, answer := make(chan struct{}), make(chan struct{})
	listener, err := listen("test", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		ended <- serveOn(&run{Context: ctx, log: slog.New(slog.DiscardHandler)}, "test", listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(asked)
			<-answer
			w.WriteHeader(http.StatusNoContent)
		}))
	}()
	got := make(chan int, 1)
	go func() {
		r, err := http.Get("http://" + listener.Addr().String())
		if err != nil {
			got <- 0
			return
		}
		_ = r.Body.Close()
		got <- r.StatusCode
	}()
	<-asked
	stop()
	select {
	case err := <-ended:
		require.Fail(t, "it left somebody without an answer", "%v", err)
	case <-time.After(200 * time.Millisecond):
	}
	close(answer)
	require.Equal(t, http.StatusNoContent, <-got)
	require.NoError(t, <-ended)
}

// M10: a service reads no header without end, and waits for no client without end.
func TestM10ServicesAreBounded(t *testing.T) {
	t.Parallel()
	listener, err := listen("test", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serveOn(&run{Context: ctx, log: slog.New(slog.DiscardHandler)}, "test", listener, http.NotFoundHandler())
	}()
	in, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String(), nil)
	require.NoError(t, err)
	in.Header.Set("X-Long", strings.Repeat("x", 2*maxHeaderBytes))
	out, err := http.DefaultClient.Do(in)
	require.NoError(t, err)
	require.NoError(t, out.Body.Close())
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, out.StatusCode)
	stop()
	require.NoError(t, <-ended)

	places := reflect.ValueOf(listener).Elem().FieldByName("sem") // of golang.org/x/net/netutil
	require.Equal(t, maxConnections, places.Cap())

	s := newServer(nil)
	for name, d := range map[string]time.Duration{"header": s.ReadHeaderTimeout, "read": s.ReadTimeout, "write": s.WriteTimeout, "idle": s.IdleTimeout} {
		require.Positive(t, d, name)
	}
}

// M10: connections beyond the limit wait until one ends.
func TestM10ConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	listener, err := listenFor("test", "127.0.0.1:0", 1)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serveOn(&run{Context: ctx, log: slog.New(slog.DiscardHandler)}, "test", listener, http.NotFoundHandler())
	}()
	first, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	_, err = first.Write([]byte("GET / HTTP/1.1\r\nHost: test\r\n\r\n"))
	require.NoError(t, err)
	_, err = first.Read(make([]byte, 1)) // it is served
	require.NoError(t, err)

	second, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	_, err = second.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
	require.NoError(t, err)
	require.NoError(t, second.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	_, err = second.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, first.Close())
	require.NoError(t, second.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = second.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, second.Close())
	stop()
	require.NoError(t, <-ended)
}
