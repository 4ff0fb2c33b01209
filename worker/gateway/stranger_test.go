package gateway_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

// M10: of who has no certificate, or one that was revoked, a gateway reads no long body into its memory: it
// answers before the body has come. Of a host it waits for it.
func TestM10AGatewayReadsNothingLongOfStrangers(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h, lost := c.enrolled("a"), c.enrolled("b")
	require.NoError(t, gateway.Revoke(c.Ctx, c.DB, "b"))
	at, err := url.Parse(c.url)
	require.NoError(t, err)
	answer := func(cfg *tls.Config, path string, sent int) (status int) {
		t.Helper()
		conn, err := tls.Dial("tcp", at.Host, cfg)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: gateway\r\nContent-Length: %d\r\n\r\n", path, 1<<20)
		require.NoError(t, err)
		_, err = conn.Write(make([]byte, sent))
		require.NoError(t, err)
		got, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		text, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		t.Logf("%s: %d %s", path, got.StatusCode, text)
		return got.StatusCode
	}
	of := func(h *host) *tls.Config {
		return pki.NewIdentity(h.got.Cert, h.keys.Sign, h.got.CA).Client(pki.Gateway)
	}
	nobody := &tls.Config{InsecureSkipVerify: true}
	for _, path := range []string{"PUT /v1/host", "POST /v1/passphrase", "POST /v1/renew"} {
		require.Equal(t, http.StatusForbidden, answer(nobody, path, 0), path)
		require.Equal(t, http.StatusForbidden, answer(of(lost), path, 0), path)
	}
	require.Equal(t, http.StatusBadRequest, answer(of(h), "PUT /v1/host", 0), "the body did not come in time")
	require.Equal(t, http.StatusBadRequest, answer(nobody, "POST /v1/enroll", 64<<10+1), "it is more than an enrollment")
}
