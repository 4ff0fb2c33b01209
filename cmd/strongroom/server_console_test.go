package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"strongroom/api/console"
)

// A console of a cloud whose authority only its users know opens with that authority, and without it not.
func TestConsoleOfAPrivateAuthority(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{console.Subprotocol}})
		if err == nil {
			defer func() { _ = line.CloseNow() }()
			_ = line.Write(r.Context(), websocket.MessageBinary, []byte("hello"))
			_, _, _ = line.Read(r.Context())
		}
	}))
	t.Cleanup(proxy.Close)
	address := "wss" + proxy.URL[len("https"):] + "/?token=SECRET"

	_, err := dialConsole(t.Context(), http.DefaultClient, address)
	require.ErrorContains(t, err, "certificate")
	require.NotContains(t, err.Error(), "SECRET")

	line, err := dialConsole(t.Context(), proxy.Client(), address)
	require.NoError(t, err)
	defer func() { _ = line.CloseNow() }()
	_, said, err := line.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, "hello", string(said))
}
