// Package pkitest makes certificates for tests.
package pkitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/worker/pki"
)

// Endorsed gives certificates of two endorsement keys such as a vTPM has, RSA 2048 and ECC NIST P384, and that of who signed them: DER.
func Endorsed(t *testing.T, server compute.ServerID) (certificates, issuers [][]byte) {
	t.Helper()
	endorser, err := pki.EnsureEndorser(filepath.Join(t.TempDir(), "endorser"))
	require.NoError(t, err)
	first, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	second, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	for _, key := range []any{first.Public(), second.Public()} {
		cert, err := endorser.Endorse(server, key)
		require.NoError(t, err)
		certificates = append(certificates, cert.Raw)
	}
	return certificates, [][]byte{endorser.Chain()[0].Raw}
}
