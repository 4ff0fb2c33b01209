package pki_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/worker/pki"
)

// The certificates are as the TCG's EK Credential Profile says, and verify against the authority of vTPMs and no other.
func TestCertificatesOfEndorsementKeys(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "endorser")
	endorser, err := pki.EnsureEndorser(dir)
	require.NoError(t, err)
	again, err := pki.EnsureEndorser(dir)
	require.NoError(t, err)
	require.Len(t, endorser.Chain(), 1)
	root := endorser.Chain()[0]
	require.True(t, root.Equal(again.Chain()[0]), "it is made once")
	require.Equal(t, "strongroom vTPM endorsement", root.Subject.CommonName)
	own, err := pki.Ensure(filepath.Join(t.TempDir(), "ca"))
	require.NoError(t, err)

	server := compute.ServerID{UUID: uuid.New()}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	eccKey, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	for _, k := range []struct {
		key   crypto.PublicKey
		usage x509.KeyUsage
	}{{rsaKey.Public(), x509.KeyUsageKeyEncipherment}, {eccKey.Public(), x509.KeyUsageKeyAgreement}} {
		cert, err := endorser.Endorse(server, k.key)
		require.NoError(t, err)
		require.Equal(t, k.usage, cert.KeyUsage)
		require.Equal(t, server.String(), cert.Subject.CommonName)
		require.Equal(t, k.key, cert.PublicKey)
		require.False(t, cert.IsCA)
		require.True(t, cert.BasicConstraintsValid)
		require.Equal(t, []asn1.ObjectIdentifier{{2, 23, 133, 8, 1}}, cert.UnknownExtKeyUsage)
		require.Empty(t, cert.ExtKeyUsage, "it proves nobody to strongroom or to a TLS peer")
		require.Equal(t, root.NotAfter, cert.NotAfter)
		require.Less(t, len(cert.Raw), 2048, "a TPM keeps no more at one index")

		roots := x509.NewCertPool()
		roots.AddCert(root)
		_, err = cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		require.NoError(t, err)
		strongrooms := x509.NewCertPool()
		strongrooms.AddCert(own.Cert)
		_, err = cert.Verify(x509.VerifyOptions{Roots: strongrooms, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		require.Error(t, err)

		var names []asn1.RawValue
		rest, err := asn1.Unmarshal(extension(t, cert, asn1.ObjectIdentifier{2, 5, 29, 17}), &names)
		require.NoError(t, err)
		require.Empty(t, rest)
		require.Len(t, names, 1)
		require.Equal(t, 4, names[0].Tag, "a directoryName")
		var name pkix.RDNSequence
		_, err = asn1.Unmarshal(names[0].Bytes, &name)
		require.NoError(t, err)
		for i, value := range []string{"id:00001014", "swtpm", "id:20191023"} {
			require.Equal(t, asn1.ObjectIdentifier{2, 23, 133, 2, i + 1}, name[i][0].Type)
			require.Equal(t, value, name[i][0].Value)
		}
		var specification []struct {
			Type   asn1.ObjectIdentifier
			Values []struct {
				Family          string `asn1:"utf8"`
				Level, Revision int
			} `asn1:"set"`
		}
		rest, err = asn1.Unmarshal(extension(t, cert, asn1.ObjectIdentifier{2, 5, 29, 9}), &specification)
		require.NoError(t, err)
		require.Empty(t, rest)
		require.Equal(t, asn1.ObjectIdentifier{2, 23, 133, 2, 16}, specification[0].Type)
		require.Equal(t, "2.0", specification[0].Values[0].Family)
		require.Equal(t, 164, specification[0].Values[0].Revision)
	}
	small, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	require.NoError(t, err)
	signs, _, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for _, key := range []crypto.PublicKey{small.Public(), signs} {
		_, err := endorser.Endorse(server, key)
		require.True(t, compute.Is(err, compute.Invalid), "%v", err)
	}
}

func extension(t *testing.T, cert *x509.Certificate, id asn1.ObjectIdentifier) []byte {
	t.Helper()
	for _, e := range cert.Extensions {
		if e.Id.Equal(id) {
			return slices.Clone(e.Value)
		}
	}
	t.Fatalf("no extension %s", id)
	return nil
}
