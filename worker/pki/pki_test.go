package pki_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"strongroom/compute"
	"strongroom/worker/pki"
)

// Processes that start at once make one authority, whose key nobody else can read.
func TestOneAuthority(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "ca")
	var all [8]*pki.Authority
	var starts errgroup.Group
	for i := range all {
		starts.Go(func() (err error) {
			all[i], err = pki.Ensure(dir)
			return err
		})
	}
	require.NoError(t, starts.Wait())
	for _, a := range all {
		require.Equal(t, all[0].Fingerprint(), a.Fingerprint())
	}
	left, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Len(t, left, 1)
	key := filepath.Join(dir, "ca.key")
	info, err := os.Stat(key)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	require.NoError(t, os.Chmod(key, 0o640))
	_, err = pki.Ensure(dir)
	require.ErrorContains(t, err, "chmod 600")
}

// A host's folder gives back what was saved, and says what to do where it cannot.
func TestFolder(t *testing.T) {
	t.Parallel()
	a, err := pki.Ensure(filepath.Join(t.TempDir(), "ca"))
	require.NoError(t, err)
	folder := pki.Folder(filepath.Join(t.TempDir(), "certificate"))
	_, _, err = folder.Load()
	require.ErrorContains(t, err, "strongroom host enroll")

	host := compute.HostID{UUID: uuid.New()}
	keys, err := pki.GenerateKeys()
	require.NoError(t, err)
	save := func(lifetime time.Duration) {
		cert, err := a.Issue(pki.HostName(host), keys.Sign.Public(), lifetime)
		require.NoError(t, err)
		require.NoError(t, folder.Save(cert, a.Cert, keys))
	}
	save(time.Hour)
	id, loaded, err := folder.Load()
	require.NoError(t, err)
	name, err := pki.NameOf(id.Cert())
	require.NoError(t, err)
	got, ok := name.Host()
	require.True(t, ok)
	require.Equal(t, host, got)
	sealed, err := pki.Seal(keys.Seal.PublicKey().Bytes(), "for one purpose", []byte("passphrase"))
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "passphrase")
	value, err := loaded.Open("for one purpose", sealed)
	require.NoError(t, err)
	require.Equal(t, "passphrase", string(value))
	_, err = loaded.Open("for another", sealed)
	require.Error(t, err)
	other, err := pki.GenerateKeys()
	require.NoError(t, err)
	_, err = other.Open("for one purpose", sealed)
	require.Error(t, err)

	file := filepath.Join(string(folder), "host.pem")
	require.NoError(t, os.Chmod(file, 0o644))
	_, _, err = folder.Load()
	require.ErrorContains(t, err, "chmod 600")
	save(-time.Minute)
	_, _, err = folder.Load()
	require.ErrorContains(t, err, "--replace")
	require.NoError(t, os.WriteFile(file, []byte("no certificate"), 0o600))
	_, _, err = folder.Load()
	require.Error(t, err)
}

// A process without the authority's key has its certificate from a file, and starts with no other's, and with none that has ended.
func TestReadIdentity(t *testing.T) {
	t.Parallel()
	a, err := pki.Ensure(filepath.Join(t.TempDir(), "ca"))
	require.NoError(t, err)
	another, err := pki.Ensure(filepath.Join(t.TempDir(), "ca"))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "console-proxy.pem")
	_, err = pki.ReadIdentity(file, pki.ConsoleProxy)
	require.ErrorIs(t, err, os.ErrNotExist)
	keys, err := pki.GenerateKeys()
	require.NoError(t, err)
	write := func(name pki.Name, lifetime time.Duration, ca ...*pki.Authority) {
		t.Helper()
		cert, err := a.Issue(name, keys.Sign.Public(), lifetime)
		require.NoError(t, err)
		der, err := x509.MarshalPKCS8PrivateKey(keys.Sign)
		require.NoError(t, err)
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
		for _, ca := range ca {
			text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Cert.Raw})...)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...)
		require.NoError(t, os.WriteFile(file, text, 0o600))
	}
	write(pki.ConsoleProxy, time.Hour, a)
	id, err := pki.ReadIdentity(file, pki.ConsoleProxy)
	require.NoError(t, err)
	require.Equal(t, a.Cert.Raw, id.CA().Raw)
	require.NoError(t, os.Chmod(file, 0o640))
	_, err = pki.ReadIdentity(file, pki.ConsoleProxy)
	require.ErrorContains(t, err, "chmod 600")
	require.NoError(t, os.Chmod(file, 0o600))

	write(pki.ConsoleProxy, -time.Minute, a)
	_, err = pki.ReadIdentity(file, pki.ConsoleProxy)
	require.ErrorContains(t, err, "strongroom authority issue console-proxy")
	write(pki.API, time.Hour, a)
	_, err = pki.ReadIdentity(file, pki.ConsoleProxy)
	require.ErrorContains(t, err, `the certificate of "api", not of the console-proxy`)
	write(pki.ConsoleProxy, time.Hour)
	_, err = pki.ReadIdentity(file, pki.ConsoleProxy)
	require.ErrorContains(t, err, "not two certificates")
	write(pki.ConsoleProxy, time.Hour, another)
	_, err = pki.ReadIdentity(file, pki.ConsoleProxy)
	require.ErrorContains(t, err, "the certificate of its authority")
}
