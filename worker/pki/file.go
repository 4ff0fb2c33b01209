package pki

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"
)

// ReadIdentity reads a certificate of that name, its key and the authority's certificate from a file, as
// strongroom authority issue prints them, for a process without the authority's key.
func ReadIdentity(path string, name Name) (*Identity, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others: chmod 600 it", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	defer clear(text)
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(pair.Certificate) != 2 {
		return nil, fmt.Errorf("%s has not two certificates, that of the %s and its authority's", path, name)
	}
	ca, err := x509.ParseCertificate(pair.Certificate[1])
	if err == nil {
		err = pair.Leaf.CheckSignatureFrom(ca)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the certificate of its authority: %w", path, err)
	}
	if is, err := NameOf(pair.Leaf); err != nil || is != name {
		return nil, fmt.Errorf("%s has the certificate of %q, not of the %s", path, is, name)
	}
	if time.Now().After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("the certificate in %s ended at %s: strongroom authority issue %s prints another", path, pair.Leaf.NotAfter.Format(time.DateOnly), name)
	}
	return NewIdentity(pair.Leaf, pair.PrivateKey, ca), nil
}
