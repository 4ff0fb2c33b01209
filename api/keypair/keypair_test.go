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

// K21: each body, and whether Nova takes it (tried with its generate_fingerprint). What it takes and we refuse, or the other way round, says why.
func TestK21WhatNovaTakesAsAKey(t *testing.T) {
	t.Parallel()
	const (
		blob        = "AAAAC3NzaC1lZDI1NTE5AAAAIKnqzgiTeUGJ0WCkRUoTr8v5qw4S0nXF3q9q9rS9H1XQ"
		key         = "ssh-ed25519 " + blob
		fingerprint = "de:c1:38:da:18:15:2a:b9:ac:16:52:dd:b5:e5:94:f7"
		padded      = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBJ8SnTSZXbPO4QM/htCH+7NnOVd+u4r7IILS+XpKLV9oVbqzhoz2Brw33ghb5wYlMjE9E3BDc+XmpDcLSIKtn/s="
	)
	for name, c := range map[string]struct {
		text  string
		taken bool
	}{
		"no comment":                  {key, true},
		"a comment":                   {key + " me", true},
		"a comment with blanks":       {key + " me at home\tor not, é", true},
		"a line end":                  {key + "\n", true},
		"CRLF":                        {key + "\r\n", true},
		"CRLF behind a comment":       {key + " me\r\n", true},
		"line ends and blanks":        {key + " me \t\n\n", true},
		"two blanks":                  {"ssh-ed25519  " + blob + " me", true}, // Nova's fingerprint is that of nothing
		"a TAB behind the blank":      {"ssh-ed25519 \t" + blob + " me", true},
		"a TAB behind the padding":    {padded + "\tme", true},
		"a blank before":              {" " + key, false},
		"a TAB before":                {"\t" + key, false},
		"a line end before":           {"\n" + key, false},
		"a byte order mark":           {"\ufeff" + key, false},
		"a TAB, no comment":           {"ssh-ed25519\t" + blob, false},
		"a TAB":                       {"ssh-ed25519\t" + blob + " me", false},
		"a TAB, a comment of base64":  {"ssh-ed25519\t" + blob + " some", false}, // Nova's fingerprint is the comment's
		"a TAB behind":                {key + "\tme", false},
		"a TAB behind, base64":        {key + "\tsome", false}, // Nova's fingerprint is that of both
		"options":                     {`command="rm" ` + key, false},
		"an option":                   {"no-pty " + key, false},
		"a type as an option":         {"ssh-ed25519 " + key, false},
		"another type":                {"ssh-rsa " + blob, false},
		"a type in capitals":          {"SSH-ED25519 " + blob, false},
		"no type":                     {blob, false},
		"cut off":                     {key[:len(key)-1], false},
		"a line end within":           {key[:30] + "\n" + key[30:], false},
		"a remark before":             {"# mine\n" + key, false},
		"two lines, no comment":       {key + "\n" + key + "\n", false},
		"two lines":                   {key + " me\n" + key + " you\n", false}, // from here on Nova takes them: two keys, of which it tells one
		"two lines, CR":               {key + " me\r" + key, false},
		"two lines, CRLF":             {key + " me\r\n" + key, false},
		"two lines to cloud-init":     {key + " me\v" + key, false},
		"two lines, U+2028":           {key + " me\u2028" + key, false},
		"two lines, U+0085":           {key + " me\u0085" + key, false},
		"a remark behind":             {key + "\n# mine", false},
		"NUL":                         {key + " a\x00b", false},           // no database keeps it
		"other characters in the key": {key[:30] + "!" + key[30:], false}, // no sshd reads it
		"more padding than there is":  {key + "=", false},                 // nor this
	} {
		pair, err := keypair.Import(keypair.SSH, c.text)
		if !c.taken {
			require.EqualError(t, err, "Keypair data is invalid: failed to generate fingerprint", name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.text, pair.Public, name)
		if !strings.HasPrefix(c.text, "ecdsa") {
			require.Equal(t, fingerprint, pair.Fingerprint, name)
		}
	}
}

func TestImportRefuses(t *testing.T) {
	t.Parallel()
	pair, err := keypair.Generate(keypair.SSH)
	require.NoError(t, err)
	for name, c := range map[string]struct{ kind, text string }{
		"nothing":        {keypair.SSH, ""},
		"nonsense":       {keypair.SSH, "ssh-rsa nonsense"},
		"no certificate": {keypair.X509, pair.Public},
		"a private key":  {keypair.X509, pair.Private},
	} {
		_, err := keypair.Import(c.kind, c.text)
		require.EqualError(t, err, "Keypair data is invalid: failed to generate fingerprint", name)
		require.True(t, compute.Is(err, compute.Invalid), name)
	}
}
