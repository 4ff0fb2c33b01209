package pki

import (
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"time"
)

// revocationLifetime is for how long a list says that it is good. Who has it asks again
// much sooner, and keeps it for longer where nobody answers.
const revocationLifetime = time.Hour

// Revoked is a certificate that is good no more.
type Revoked struct {
	Serial *big.Int
	At     time.Time
}

// RevocationList gives the signed list of certificates (RFC 5280, DER).
func (a *Authority) RevocationList(revoked []Revoked, now time.Time) ([]byte, error) {
	entries := make([]x509.RevocationListEntry, len(revoked))
	for i, r := range revoked {
		entries[i] = x509.RevocationListEntry{SerialNumber: r.Serial, RevocationTime: r.At}
	}
	issuer := *a.Cert
	issuer.KeyUsage |= x509.KeyUsageCRLSign // which the first authorities do not name
	return x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		RevokedCertificateEntries: entries, Number: big.NewInt(now.UnixMicro()),
		ThisUpdate: now.Add(-clockSkew), NextUpdate: now.Add(revocationLifetime),
	}, &issuer, a.key)
}
