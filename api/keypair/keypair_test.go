package keypair_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"strongroom/api/keypair"
	"strongroom/compute"
)

func TestGenerate(t *testing.T) {
	t.Parallel()
	pair, err := keypair.Generate(keypair.SSH)
	require.NoError(t, err)
	signer, err := ssh.ParsePrivateKey([]byte(pair.Private))
	require.NoError(t, err)
	require.Equal(t, pair.Fingerprint, ssh.FingerprintLegacyMD5(signer.PublicKey()))
	again, err := keypair.Import(keypair.SSH, pair.Public)
	require.NoError(t, err)
	require.Equal(t, keypair.Pair{Public: pair.Public, Fingerprint: pair.Fingerprint}, again)

	_, err = keypair.Generate(keypair.X509)
	require.True(t, compute.Is(err, compute.Invalid))
}

// P18: a pair that is made here is one of RSA, whose private key has the form that old
// clients read.
func TestP18AGeneratedPairIsReadByOldClients(t *testing.T) {
	t.Parallel()
	pair, err := keypair.Generate(keypair.SSH)
	require.NoError(t, err)
	require.Regexp(t, `^ssh-rsa [A-Za-z0-9+/=]+ Generated-by-strongroom$`, pair.Public)
	block, rest := pem.Decode([]byte(pair.Private))
	require.Empty(t, rest)
	require.Equal(t, "RSA PRIVATE KEY", block.Type)
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	require.NoError(t, err)
	require.Equal(t, 2048, key.N.BitLen())
	public, err := ssh.NewPublicKey(&key.PublicKey)
	require.NoError(t, err)
	require.Equal(t, ssh.FingerprintLegacyMD5(public), pair.Fingerprint)
}

// TestWhatSSHSays compares with ssh-keygen, for every type of key that it makes.
func TestWhatSSHSays(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("ssh-keygen")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("needs ssh-keygen")
	}
	require.NoError(t, err)
	for _, kind := range []string{"rsa", "ecdsa", "ed25519"} {
		file := filepath.Join(t.TempDir(), kind)
		require.NoError(t, exec.Command(tool, "-q", "-t", kind, "-N", "", "-f", file).Run())
		public, err := os.ReadFile(file + ".pub")
		require.NoError(t, err)
		said, err := exec.Command(tool, "-l", "-E", "md5", "-f", file+".pub").Output()
		require.NoError(t, err)
		pair, err := keypair.Import(keypair.SSH, string(public))
		require.NoError(t, err)
		require.Equal(t, strings.TrimPrefix(strings.Fields(string(said))[1], "MD5:"), pair.Fingerprint)

		private, err := os.ReadFile(file)
		require.NoError(t, err)
		_, err = keypair.Import(keypair.SSH, string(private))
		require.EqualError(t, err, "Keypair data is invalid: failed to generate fingerprint")
	}
}

func TestImportCertificate(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("openssl")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("needs openssl")
	}
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "cert.pem")
	require.NoError(t, exec.Command(tool, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", file+".key", "-out", file, "-subj", "/CN=a", "-days", "1").Run())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	said, err := exec.Command(tool, "x509", "-noout", "-fingerprint", "-sha1", "-in", file).Output()
	require.NoError(t, err)
	_, want, _ := strings.Cut(strings.TrimSpace(string(said)), "=")
	pair, err := keypair.Import(keypair.X509, string(text))
	require.NoError(t, err)
	require.Equal(t, strings.ToLower(want), pair.Fingerprint)
}

func TestImportRefuses(t *testing.T) {
	t.Parallel()
	pair, err := keypair.Generate(keypair.SSH)
	require.NoError(t, err)
	for name, c := range map[string]struct{ kind, text string }{
		"nothing":        {keypair.SSH, ""},
		"nonsense":       {keypair.SSH, "ssh-rsa nonsense"},
		"two keys":       {keypair.SSH, pair.Public + "\n" + pair.Public},
		"options":        {keypair.SSH, `command="rm" ` + pair.Public},
		"no certificate": {keypair.X509, pair.Public},
		"a private key":  {keypair.X509, pair.Private},
	} {
		_, err := keypair.Import(c.kind, c.text)
		require.EqualError(t, err, "Keypair data is invalid: failed to generate fingerprint", name)
		require.True(t, compute.Is(err, compute.Invalid), name)
	}
}
