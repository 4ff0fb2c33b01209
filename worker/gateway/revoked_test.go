package gateway_test

import (
	"crypto/x509"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

// C1: Temporal learns from a gateway which certificates of hosts were revoked. A list is
// never older than the one before it.
func TestC1TheListOfRevokedCertificates(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.fresh = time.Nanosecond
	own, err := c.authority.Process(pki.Gateway)
	require.NoError(t, err)
	c.url = c.serve(own)
	a, other := c.enrolled("a"), c.enrolled("b")
	client := anybody() // the list is signed
	list := func() *x509.RevocationList {
		t.Helper()
		answer, err := client.Get(c.url + "/v1/revoked")
		require.NoError(t, err)
		defer answer.Body.Close()
		require.Equal(t, http.StatusOK, answer.StatusCode)
		der, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		list, err := x509.ParseRevocationList(der)
		require.NoError(t, err)
		require.NoError(t, list.CheckSignatureFrom(c.authority.Cert))
		return list
	}
	serials := func(l *x509.RevocationList) (out []string) {
		for _, e := range l.RevokedCertificateEntries {
			out = append(out, e.SerialNumber.String())
		}
		return out
	}
	empty := list()
	require.Empty(t, serials(empty))

	first := a.got.Cert.SerialNumber.String()
	require.NoError(t, gateway.Revoke(c.Ctx, c.DB, "a"))
	one := list()
	require.Equal(t, []string{first}, serials(one))
	require.Positive(t, one.Number.Cmp(empty.Number))

	a.newKeys()
	require.NoError(t, a.enroll(c.token("a")), "it is another certificate")
	require.Equal(t, []string{first}, serials(list()))
	second := a.got.Cert.SerialNumber.String()
	a.newKeys()
	require.NoError(t, a.enroll(c.token("a")), "the certificates of keys that it has no more are revoked")
	require.ElementsMatch(t, []string{first, second}, serials(list()))

	require.NoError(t, gateway.Revoke(c.Ctx, c.DB, other.id.String()))
	require.Len(t, serials(list()), 3)
	c.Exec("UPDATE host_certificates SET not_after = now() WHERE host_id = $1", other.id)
	require.ElementsMatch(t, []string{first, second}, serials(list()), "what has ended needs no list")
}
