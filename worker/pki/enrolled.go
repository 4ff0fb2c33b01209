package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"

	"strongroom/compute"
)

// Enrolled is what a host got from a gateway.
type Enrolled struct {
	Name     string // of the host, as the token said
	Cert, CA *x509.Certificate
}

// ParseFor reads a certificate, which must be the host's and for its key.
func ParseFor(der []byte, host compute.HostID, keys Keys) (*x509.Certificate, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	name, err := NameOf(cert)
	if err != nil {
		return nil, err
	}
	key, ok := cert.PublicKey.(*ecdsa.PublicKey)
	if name != HostName(host) || !ok || !keys.Sign.PublicKey.Equal(key) {
		return nil, errors.New("the certificate is for another host or key")
	}
	return cert, nil
}
