package durable_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
)

// C1: where Temporal's frontend asks for certificates, strongroom shows its own, and who
// has none gets nothing; and strongroom talks to no false one.
func TestC1TemporalOverMutualTLS(t *testing.T) {
	t.Parallel()
	server := temporaltest.Start(t)
	ours, theirs := newIssuer(t), newIssuer(t)
	frontend := func(a issuer) string {
		roots := x509.NewCertPool()
		roots.AddCert(a.cert)
		return forward(t, server.Address(), &tls.Config{
			MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
			NextProtos: []string{"h2"}, Certificates: []tls.Certificate{a.issue()},
		})
	}
	right, wrong := frontend(ours), frontend(theirs)

	files := func(a issuer) durable.TLSFiles {
		dir := t.TempDir()
		pair := a.issue()
		key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
		require.NoError(t, err)
		write := func(name, kind string, der []byte) string {
			path := filepath.Join(dir, name)
			require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
			return path
		}
		return durable.TLSFiles{
			Authority: write("ca.crt", "CERTIFICATE", ours.cert.Raw), Certificate: write("t.crt", "CERTIFICATE", pair.Certificate[0]),
			Key: write("t.key", "PRIVATE KEY", key), ServerName: "temporal.example.org",
		}
	}
	dial := func(address string, f durable.TLSFiles) error {
		cfg, err := f.Config()
		require.NoError(t, err)
		c, err := durable.Dial(durable.ClientConfig{Address: address, Namespace: server.Namespace(), Keys: temporaltest.Keys, TLS: cfg, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			_, err = c.CheckHealth(t.Context(), &client.CheckHealthRequest{})
			c.Close()
		}
		return err
	}
	good := files(ours)
	require.NoError(t, dial(right, good))
	require.Error(t, dial(wrong, good), "a false frontend")
	require.Error(t, dial(right, files(theirs)), "another authority's certificate")
	require.Error(t, dial(right, durable.TLSFiles{Authority: good.Authority, ServerName: good.ServerName}), "no certificate")
	require.Error(t, dial(right, durable.TLSFiles{}), "clear text")

	_, err := durable.TLSFiles{Certificate: good.Certificate}.Config()
	require.ErrorContains(t, err, "go together")
	require.NoError(t, os.Chmod(good.Key, 0o644))
	_, err = good.Config()
	require.ErrorContains(t, err, "chmod 600")
}

// issuer is a certificate authority.
type issuer struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) issuer {
	t.Helper()
	a := issuer{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue makes a certificate for either end.
func (a issuer) issue() tls.Certificate {
	a.t.Helper()
	cert, key := a.sign(&x509.Certificate{
		DNSNames: []string{"temporal.example.org"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	})
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func (a issuer) sign(of *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	of.SerialNumber, of.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(time.Hour)
	by, signer := a.cert, a.key
	if by == nil {
		by, signer = of, key
	}
	der, err := x509.CreateCertificate(rand.Reader, of, by, key.Public(), signer)
	require.NoError(a.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return cert, key
}

// forward passes connections over TLS on to an address.
func forward(t *testing.T, to string, cfg *tls.Config) (address string) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				onward, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer onward.Close()
				go func() { _, _ = io.Copy(onward, from); _ = onward.Close() }()
				_, _ = io.Copy(from, onward)
			}()
		}
	}()
	return listener.Addr().String()
}
