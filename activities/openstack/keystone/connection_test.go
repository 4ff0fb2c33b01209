package keystone_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/openstack/keystone"
	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

// authority signs certificates of a cloud's own.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{cert, key}
}

// issue writes a certificate and its key, and gives them.
func (a authority) issue(t *testing.T, name, certFile, keyFile string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	require.NoError(t, err)
	text, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	writePEM(t, certFile, "CERTIFICATE", der)
	writePEM(t, keyFile, "PRIVATE KEY", text)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// serve serves by TLS what a handler serves, with a certificate of the authority. With clients it asks for theirs.
func (a authority) serve(t *testing.T, clients bool, handler http.Handler) (address string) {
	t.Helper()
	dir := t.TempDir()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.TLS = &tls.Config{MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.issue(t, "service", filepath.Join(dir, "cert"), filepath.Join(dir, "key"))}}
	if clients {
		server.TLS.ClientAuth, server.TLS.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		server.TLS.ClientCAs.AddCert(a.cert)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
}

func get(t *testing.T, transport http.RoundTripper, address string) (string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	require.NoError(t, err)
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// Services are believed whose certificate is of the operator's authority, or of the system's. Where they want to know who asks they are shown a
// certificate, the newest in its file.
func TestConnectionsAreSecured(t *testing.T) {
	t.Parallel()
	ours, others := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	writePEM(t, at("ca"), "CERTIFICATE", ours.cert.Raw)
	writePEM(t, at("other"), "CERTIFICATE", others.cert.Raw)
	require.NoError(t, os.WriteFile(at("text"), []byte("no certificate"), 0o600))
	ours.issue(t, "first", at("cert"), at("key"))
	who := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) > 0 {
			_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
		}
	})
	open, mutual := ours.serve(t, false, who), ours.serve(t, true, who)
	ask := func(c keystone.Connection, address string) (string, error) {
		transport, err := c.Transport()
		require.NoError(t, err)
		defer transport.CloseIdleConnections()
		return get(t, transport, address)
	}
	for _, c := range []keystone.Connection{{}, {CAFile: at("other")}} {
		_, err := ask(c, open)
		require.ErrorContains(t, err, "certificate signed by unknown authority")
	}
	for _, c := range []keystone.Connection{{CAFile: at("ca")}, {Insecure: true}} {
		_, err := ask(c, open)
		require.NoError(t, err)
		_, err = ask(c, mutual)
		require.ErrorContains(t, err, "remote error: tls: ", "it shows none")
	}
	shown, err := keystone.Connection{CAFile: at("ca"), CertFile: at("cert"), KeyFile: at("key")}.Transport()
	require.NoError(t, err)
	shows := func() string {
		t.Helper()
		got, err := get(t, shown, mutual)
		require.NoError(t, err)
		shown.CloseIdleConnections()
		return got
	}
	require.Equal(t, "first", shows())
	ours.issue(t, "renewed", at("cert"), at("key"))
	require.Equal(t, "renewed", shows())
	ours.issue(t, "half", at("cert"), at("elsewhere"))
	require.Equal(t, "renewed", shows(), "its key is not there yet")
	for says, c := range map[string]keystone.Connection{
		"cafile: open " + at("none"): {CAFile: at("none")}, "cafile: " + at("text") + " has no certificate in PEM": {CAFile: at("text")},
		"certfile and keyfile: ": {CertFile: at("cert")}, "certfile and keyfile: open " + at("none"): {CertFile: at("none"), KeyFile: at("key")},
	} {
		_, err := c.Transport()
		require.ErrorContains(t, err, says)
		require.Equal(t, compute.Invalid, compute.KindOf(err))
	}
}

// strongroom logs in to a Keystone that has a certificate of the cloud's own authority, and wants one, and to no other.
func TestAKeystoneBehindAPrivateAuthority(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.Open(t))
	ours, dir := newAuthority(t), t.TempDir()
	ca, cert, key := filepath.Join(dir, "ca"), filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	writePEM(t, ca, "CERTIFICATE", ours.cert.Raw)
	ours.issue(t, "strongroom", cert, key)
	real, err := url.Parse(b.url)
	require.NoError(t, err)
	front := ours.serve(t, true, httputil.NewSingleHostReverseProxy(&url.URL{Scheme: real.Scheme, Host: real.Host}))
	project, name := b.project(t)
	user := b.user(t)
	b.grant(t, user, project, "service")
	log := &strings.Builder{}
	login := func(c keystone.Connection) error {
		_, err := keystone.Open(t.Context(), keystone.Config{
			AuthURL: front + "/v3", Username: user.name, Password: secret.New([]byte(user.password)), Project: name, Domain: "Default", Connection: c,
			Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		return err
	}
	require.NoError(t, login(keystone.Connection{CAFile: ca, CertFile: cert, KeyFile: key}))
	require.NotContains(t, log.String(), "identity.insecure")
	require.NoError(t, login(keystone.Connection{Insecure: true, CertFile: cert, KeyFile: key}))
	require.Contains(t, log.String(), "identity.insecure")
	require.ErrorContains(t, login(keystone.Connection{CertFile: cert, KeyFile: key}), "unknown authority")
	require.Error(t, login(keystone.Connection{CAFile: ca}), "it shows nothing")
}
