package pki

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// The files of an authority's folder.
const (
	certFile = "ca.crt" // may be read by all
	keyFile  = "ca.key" // mode 0600
)

// How long certificates last. A host renews its own when a third of that is left.
const (
	authorityLifetime = 20 * 365 * 24 * time.Hour
	HostLifetime      = 90 * 24 * time.Hour
	processLifetime   = 365 * 24 * time.Hour // of a certificate that is made at a process's start
	clockSkew         = 5 * time.Minute
)

// Authority issues certificates.
type Authority struct {
	Cert *x509.Certificate
	key  crypto.Signer
}

// Ensure opens the authority of a folder, and makes it if there is none. Several
// processes may call it at once.
func Ensure(dir string) (*Authority, error) { return ensure(dir, "strongroom") }

func ensure(dir, name string) (*Authority, error) {
	a, err := Open(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return a, err
	}
	if err := create(dir, name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return Open(dir)
}

// Open opens the authority of a folder. fs.ErrNotExist: there is none.
func Open(dir string) (*Authority, error) {
	path := filepath.Join(dir, keyFile)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others: chmod 600 it", path)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), path)
	if err != nil {
		return nil, fmt.Errorf("the certificate authority in %s: %w", dir, err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("%s is no certificate of an authority", filepath.Join(dir, certFile))
	}
	return &Authority{Cert: pair.Leaf, key: key}, nil
}

// create makes an authority in a new folder, which appears with both files in it.
// fs.ErrExist: there is one.
func create(dir, name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-clockSkew), NotAfter: time.Now().Add(authorityLifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o711); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	if err := writeKey(filepath.Join(temp, keyFile), key); err != nil {
		return err
	}
	if err := writeCert(filepath.Join(temp, certFile), der); err != nil {
		return err
	}
	return os.Rename(temp, dir) // ErrExist where another one is not empty
}

// Issue gives a certificate for a public key.
func (a *Authority) Issue(name Name, key crypto.PublicKey, lifetime time.Duration) (*x509.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: string(name)}, URIs: []*url.URL{name.url()},
		NotBefore: time.Now().Add(-clockSkew), NotAfter: time.Now().Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Cert, key, a.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// Secret is one that all processes beside the authority know, and nobody else, for one
// purpose.
func (a *Authority) Secret(purpose string) ([]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	return hkdf.Key(sha256.New, key, nil, purpose, sha256.Size)
}

// Process gives a process beside the authority a certificate and a key, which exist in
// its memory alone.
func (a *Authority) Process(name Name) (*Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert, err := a.Issue(name, key.Public(), processLifetime)
	if err != nil {
		return nil, err
	}
	return NewIdentity(cert, key, a.Cert), nil
}

// Renew gives a process of this name another certificate each day, until ctx ends.
func (a *Authority) Renew(ctx context.Context, id *Identity, name Name) {
	tick := time.NewTicker(24 * time.Hour)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if newer, err := a.Process(name); err == nil { // else the present one is good for months
				id.current.Store(newer.current.Load())
			}
		}
	}
}

// Fingerprint is the SHA-256 of the authority's certificate, by which a host that has no
// certificate yet knows it.
func (a *Authority) Fingerprint() [sha256.Size]byte { return sha256.Sum256(a.Cert.Raw) }

func serial() *big.Int {
	n := make([]byte, 16)
	_, _ = rand.Read(n) // never fails
	n[0] &= 0x7f        // RFC 5280: positive
	return new(big.Int).SetBytes(n)
}

func writeKey(path string, key crypto.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return write(path, "PRIVATE KEY", der, 0o600)
}

func writeCert(path string, der []byte) error { return write(path, "CERTIFICATE", der, 0o644) }

func write(path, kind string, der []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	return errors.Join(pem.Encode(f, &pem.Block{Type: kind, Bytes: der}), f.Sync(), f.Close())
}
