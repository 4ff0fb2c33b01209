package pki

import (
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
)

// Identity is a certificate with its key, and the authority that others' certificates
// must be of. It may be replaced by a newer one while it is in use.
type Identity struct {
	current atomic.Pointer[tls.Certificate]
	roots   *x509.CertPool
	ca      *x509.Certificate
}

// NewIdentity is the identity of one that the authority ca gave a certificate.
func NewIdentity(cert *x509.Certificate, key crypto.PrivateKey, ca *x509.Certificate) *Identity {
	id := &Identity{roots: x509.NewCertPool(), ca: ca}
	id.roots.AddCert(ca)
	id.Replace(cert, key)
	return id
}

// Replace takes another certificate of the same name.
func (id *Identity) Replace(cert *x509.Certificate, key crypto.PrivateKey) {
	// The authority's certificate goes with it, for those that know no more than its
	// fingerprint.
	id.current.Store(&tls.Certificate{Certificate: [][]byte{cert.Raw, id.ca.Raw}, PrivateKey: key, Leaf: cert})
}

// CA is the certificate of the authority.
func (id *Identity) CA() *x509.Certificate { return id.ca }

// Cert is the certificate.
func (id *Identity) Cert() *x509.Certificate { return id.current.Load().Leaf }

// Server is the configuration of a listener. Clients without a certificate are let in,
// as Peer says: what they may do is the handler's to decide.
func (id *Identity) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: id.roots,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return id.current.Load(), nil },
		NextProtos:     []string{"http/1.1"}, // images pass faster than over HTTP/2's windows
	}
}

// Client is the configuration of connections to one that has a certificate of that name.
func (id *Identity) Client(to Name) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return id.current.Load(), nil },
		InsecureSkipVerify:   true, //nolint:gosec // VerifyConnection does it, by the name in the URI and not by DNS
		VerifyConnection:     func(s tls.ConnectionState) error { return verify(s, id.roots, to) },
	}
}

// Temporal is the configuration of connections to a Temporal server with strongroom's
// authorizer.
func (id *Identity) Temporal() *tls.Config {
	cfg := id.Client(Temporal)
	cfg.NextProtos = []string{"h2"}
	return cfg
}

// HTTPClient is a client over a transport with one of these configurations. It follows no
// redirect: that would lead to where whoever took the other end likes.
func HTTPClient(transport *http.Transport) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// ByFingerprint is the configuration of the first connection to a gateway, by one that
// knows the authority by its fingerprint alone, and learns it.
func ByFingerprint(fingerprint [sha256.Size]byte, learn *Enrolled) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does it, by the fingerprint
		VerifyConnection: func(s tls.ConnectionState) error {
			for _, c := range s.PeerCertificates {
				if sha256.Sum256(c.Raw) != fingerprint {
					continue
				}
				roots := x509.NewCertPool()
				roots.AddCert(c)
				learn.CA = c
				return verify(s, roots, Gateway)
			}
			return errors.New("this is not the gateway that the token is for: its authority has another fingerprint")
		},
	}
}

func verify(s tls.ConnectionState, roots *x509.CertPool, want Name) error {
	leaf := s.PeerCertificates[0]
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		return err
	}
	name, err := NameOf(leaf)
	if err == nil && name != want {
		err = fmt.Errorf("the certificate is that of %s, not of %s", name, want)
	}
	return err
}

// Peer is who is at the other end of a connection to a listener: "" is one without a
// certificate.
func Peer(s *tls.ConnectionState) (Name, *x509.Certificate) {
	if s == nil || len(s.VerifiedChains) == 0 {
		return "", nil
	}
	leaf := s.VerifiedChains[0][0]
	name, err := NameOf(leaf)
	if err != nil {
		return "", nil
	}
	return name, leaf
}
