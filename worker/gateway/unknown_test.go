package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/worker/pki"
)

// H1: who has the certificate of a host, or none, and tries paths is seen in the log: each path once, and not
// without end.
func TestH1UnknownPathsAreLogged(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("a")
	c.log.take("")
	client := pki.HTTPClient(&http.Transport{TLSClientConfig: pki.NewIdentity(h.got.Cert, h.keys.Sign, h.got.CA).Client(pki.Gateway)})
	ask := func(method, path string) (lines []string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, c.url+path, nil)
		require.NoError(t, err)
		resp, err := client.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusNotFound, resp.StatusCode)
		require.Equal(t, "404 page not found\n", string(body))
		return c.log.take(`level=WARN msg="asked for what there is not" peer=` + string(pki.HostName(h.id)) + " address=127.0.0.1:")
	}
	lines := ask(http.MethodGet, "/v1/passphrases")
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], `request="GET /v1/passphrases" more_are_not_logged=false`)
	require.Empty(t, ask(http.MethodGet, "/v1/passphrases"), "once")
	require.Len(t, ask(http.MethodDelete, "/v1/passphrase"), 1, "another method")
	long := ask(http.MethodGet, "/"+strings.Repeat("x", 5000))
	require.Len(t, long, 1)
	require.Less(t, len(long[0]), 1000)
	for n := 3; n < 99; n++ {
		require.Len(t, ask(http.MethodGet, fmt.Sprint("/", n)), 1)
	}
	require.Contains(t, ask(http.MethodGet, "/last")[0], "more_are_not_logged=true")
	require.Empty(t, ask(http.MethodGet, "/more"))
	client = pki.HTTPClient(&http.Transport{TLSClientConfig: process(t, c.authority, pki.HostName(h.id)).Client(pki.Gateway)})
	require.Empty(t, ask(http.MethodGet, "/more"), "by another certificate of the host")
}
