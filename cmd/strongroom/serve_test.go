package main

import (
	"context"
	"log/slog"
	"net/http"
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
