package access

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/url"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"go.temporal.io/server/common/rpc/encryption"
)

// Identity is the server's certificate, and the authority that others' must be of.
type Identity struct {
	own   func() (*tls.Certificate, error)
	roots *x509.CertPool
	CA    *x509.Certificate
	Log   *slog.Logger
}

// How long a certificate of a process is good that has the authority's key beside it, and
// how often it takes another.
const (
	lifetime   = 365 * 24 * time.Hour
	renewEvery = 24 * time.Hour
	clockSkew  = 5 * time.Minute
)

// FromAuthority gives the server a certificate that exists in its memory alone, by the
// authority in a folder that strongroom gateway made. It is renewed until ctx ends.
func FromAuthority(ctx context.Context, folder string, log *slog.Logger) (*Identity, error) {
	path := filepath.Join(folder, "ca.key")
	if _, err := readSecret(path); err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "ca.crt"), path)
	if err != nil {
		return nil, fmt.Errorf("the certificate authority in %s: %w", folder, err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("%s has no certificate of an authority", folder)
	}
	first, err := issue(pair.Leaf, signer)
	if err != nil {
		return nil, err
	}
	var current atomic.Pointer[tls.Certificate]
	current.Store(first)
	go func() {
		tick := time.NewTicker(renewEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if next, err := issue(pair.Leaf, signer); err == nil { // else the present one is good for months
					current.Store(next)
				}
			}
		}
	}()
	return newIdentity(pair.Leaf, log, func() (*tls.Certificate, error) { return current.Load(), nil }), nil
}

func issue(ca *x509.Certificate, signer crypto.Signer) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial := make([]byte, 16)
	_, _ = rand.Read(serial) // never fails
	serial[0] &= 0x7f        // RFC 5280: positive
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial), Subject: pkix.Name{CommonName: string(Server)}, URIs: []*url.URL{{Scheme: scheme, Host: string(Server)}},
		NotBefore: time.Now().Add(-clockSkew), NotAfter: time.Now().Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, ca, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der, ca.Raw}, PrivateKey: key, Leaf: leaf}, err
}

// FromFile reads a certificate, its key and the authority's certificate, as strongroom
// certificate writes them, anew for each connection: the file may be replaced.
func FromFile(path string, log *slog.Logger) (*Identity, error) {
	load := func() (*tls.Certificate, error) {
		text, err := readSecret(path)
		if err != nil {
			return nil, err
		}
		defer clear(text)
		pair, err := tls.X509KeyPair(text, text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(pair.Certificate) != 2 {
			return nil, fmt.Errorf("%s has not two certificates, the server's and its authority's", path)
		}
		return &pair, nil
	}
	first, err := load()
	if err != nil {
		return nil, err
	}
	if nameOf(first.Leaf) != Server {
		return nil, fmt.Errorf("%s is the certificate of %q, not of %q", path, nameOf(first.Leaf), Server)
	}
	ca, err := x509.ParseCertificate(first.Certificate[1])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return newIdentity(ca, log, load), nil
}

func newIdentity(ca *x509.Certificate, log *slog.Logger, own func() (*tls.Certificate, error)) *Identity {
	id := &Identity{own: own, roots: x509.NewCertPool(), CA: ca, Log: log}
	id.roots.AddCert(ca)
	return id
}

// PEM is the certificate and its key, for the UI, which takes no other form.
func (id *Identity) PEM() (cert, key []byte, err error) {
	pair, err := id.own()
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// listener lets those in whose certificate is of the authority, and has one of the names,
// if there are any. It looks itself, so that the log has who was refused.
func (id *Identity) listener(names ...Name) *tls.Config {
	base := &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return id.own() },
	}
	out := base.Clone()
	out.VerifyConnection = func(s tls.ConnectionState) error { return id.verify(s, x509.ExtKeyUsageClientAuth, names) }
	out.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		own := base.Clone()
		own.VerifyConnection = func(s tls.ConnectionState) error {
			err := id.verify(s, x509.ExtKeyUsageClientAuth, names)
			if err != nil {
				var name Name
				if len(s.PeerCertificates) > 0 {
					name = nameOf(s.PeerCertificates[0]) // as it says itself
				}
				id.Log.Warn("refused", "certificate", name, "api", "", "queue", "", "namespace", "", "address", hello.Conn.RemoteAddr().String(), "error", err)
			}
			return err
		}
		return own, nil
	}
	return out
}

// Client is the configuration of connections to one of that name.
func (id *Identity) client(to Name) *tls.Config {
	return &tls.Config{
		MinVersion:           tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return id.own() },
		InsecureSkipVerify:   true, //nolint:gosec // VerifyConnection does it, by the name in the URI and not by DNS
		VerifyConnection:     func(s tls.ConnectionState) error { return id.verify(s, x509.ExtKeyUsageServerAuth, []Name{to}) },
	}
}

func (id *Identity) verify(s tls.ConnectionState, usage x509.ExtKeyUsage, names []Name) error {
	if len(s.PeerCertificates) == 0 {
		return errNoCertificate
	}
	leaf := s.PeerCertificates[0]
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: id.roots, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
		return err
	}
	if len(names) > 0 && !slices.Contains(names, nameOf(leaf)) {
		return fmt.Errorf("the certificate is that of %q", nameOf(leaf))
	}
	return nil
}

// Provider gives Temporal's services their TLS: to clients, and among each other.
func (id *Identity) Provider() encryption.TLSConfigProvider { return provider{id} }

type provider struct{ *Identity }

func (p provider) GetFrontendServerConfig() (*tls.Config, error)  { return p.listener(), nil }
func (p provider) GetFrontendClientConfig() (*tls.Config, error)  { return p.client(Server), nil }
func (p provider) GetInternodeServerConfig() (*tls.Config, error) { return p.listener(Server), nil }
func (p provider) GetInternodeClientConfig() (*tls.Config, error) { return p.client(Server), nil }

func (p provider) GetRemoteClusterClientConfig(string) (*tls.Config, error) {
	return nil, errors.New("there is no other cluster")
}

func (p provider) GetExpiringCerts(time.Duration) (expiring, expired encryption.CertExpirationMap, err error) {
	return nil, nil, nil
}
