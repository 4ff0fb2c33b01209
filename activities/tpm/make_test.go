package tpm_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport/linuxudstpm"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/secret"
	"strongroom/activities/tpm"
	"strongroom/compute"
)

// endorser stands for the gateway: its certificates are as large as they get, and have the key in them.
type endorser struct {
	off    bool
	fails  atomic.Bool
	server compute.ServerID
	keys   [][]byte
	gave   [][]byte
}

func (e *endorser) Endorses(context.Context, compute.ServerID, compute.OperationID) (bool, error) {
	return !e.off, nil
}

func (e *endorser) Endorse(_ context.Context, server compute.ServerID, _ compute.OperationID, keys [][]byte) ([][]byte, error) {
	if e.fails.Swap(false) {
		return nil, compute.Errorf(compute.Unavailable, "the gateway does not answer")
	}
	e.server, e.keys, e.gave = server, keys, nil
	for _, key := range keys {
		certificate := make([]byte, 1500)
		_, _ = rand.Read(certificate[copy(certificate, key):])
		e.gave = append(e.gave, certificate)
	}
	return e.gave, nil
}

// made is a host of which the new vTPM of a server is made.
func made(t *testing.T, by *endorser) (*tpm.Activities, compute.FreshTPM, func() *secret.Passphrase) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it gives files to others")
	}
	dir, err := os.MkdirTemp("", "vtpm") // which swtpm's user can enter
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o711))
	a, err := tpm.New(tpm.Config{SwtpmDir: filepath.Join(dir, "swtpm"), Endorser: by})
	require.NoError(t, err)
	value, err := secret.Generate(compute.TPMPassphraseBytes)
	require.NoError(t, err)
	text := ""
	require.NoError(t, value.Use(func(v []byte) error { text = string(v); return nil }))
	of := compute.FreshTPM{Server: compute.ServerID{UUID: uuid.New()}, Version: compute.TPM20, Operation: "req-1", Began: time.Now()}
	return a, of, func() *secret.Passphrase { return secret.New([]byte(text)) }
}

// A new vTPM's endorsement keys are certified, and it has the certificates, which a guest reads without a password and cannot change.
// What is there is not made again; an attempt that fails leaves nothing.
func TestANewTPMHasCertificates(t *testing.T) {
	t.Parallel()
	cloud := &endorser{}
	a, of, passphrase := made(t, cloud)
	cloud.fails.Store(true)
	err := a.Make(t.Context(), of, passphrase())
	require.True(t, compute.Is(err, compute.Unavailable), "%v", err)
	left, err := os.ReadDir(a.SwtpmDir)
	require.NoError(t, err)
	require.Empty(t, left)

	require.NoError(t, a.NoteNew(t.Context(), of.Server, of.Operation, of.Began), "a worker of an earlier release was here")
	require.NoError(t, a.Make(t.Context(), of, passphrase()))
	state := filepath.Join(a.SwtpmDir, of.Server.String(), "tpm2", "tpm2-00.permall")
	is, err := os.ReadFile(state)
	require.NoError(t, err)
	first := cloud.gave
	require.NoError(t, a.Make(t.Context(), of, passphrase()))
	again, err := os.ReadFile(state)
	require.NoError(t, err)
	require.Equal(t, is, again, "the guest may have started since")
	require.Equal(t, first, cloud.gave)
	later := of
	later.Operation = "req-2"
	require.NoError(t, a.Make(t.Context(), later, passphrase()), "the operation before was undone, which did not reach the host")
	require.NotEqual(t, first, cloud.gave, "its keys have certificates of this one")
	for path, mode := range map[string]os.FileMode{filepath.Dir(filepath.Dir(state)): 0o711, filepath.Dir(state): 0o700} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm())
	}
	require.Zero(t, ownerOf(t, filepath.Dir(filepath.Dir(state))), "it is root's, as libvirt has it")
	require.Equal(t, a.Owner.UID, ownerOf(t, filepath.Dir(state)))

	require.Equal(t, of.Server, cloud.server)
	require.Len(t, cloud.keys, 2)
	key, err := x509.ParsePKIXPublicKey(cloud.keys[0])
	require.NoError(t, err)
	require.Equal(t, 2048, key.(*rsa.PublicKey).N.BitLen())
	key, err = x509.ParsePKIXPublicKey(cloud.keys[1])
	require.NoError(t, err)
	require.Equal(t, elliptic.P384(), key.(*ecdsa.PublicKey).Curve)

	chip := filepath.Join(filepath.Dir(a.SwtpmDir), "chip")
	pipe, err := passphrase().Pipe()
	require.NoError(t, err)
	cmd := exec.Command("swtpm", "socket", "--tpm2", "--server", "type=unixio,path="+chip, "--tpmstate", "dir="+filepath.Dir(state),
		"--key", "pwdfd=3,mode=aes-256-cbc", "--flags", "not-need-init,startup-clear")
	cmd.ExtraFiles, cmd.Stderr = []*os.File{pipe}, os.Stderr
	require.NoError(t, cmd.Start())
	require.NoError(t, pipe.Close())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	require.Eventually(t, func() bool { // the socket is there a moment before swtpm listens at it, and Open does not connect
		line, err := net.Dial("unix", chip)
		return err == nil && line.Close() == nil
	}, time.Minute, 5*time.Millisecond)
	guest, err := linuxudstpm.Open(chip)
	require.NoError(t, err)
	defer guest.Close()
	for i, index := range []tpm2.TPMHandle{0x01c00002, 0x01c00016} {
		public, err := tpm2.NVReadPublic{NVIndex: index}.Execute(guest)
		require.NoError(t, err)
		area, err := public.NVPublic.Contents()
		require.NoError(t, err)
		require.Len(t, cloud.gave[i], int(area.DataSize))
		by := tpm2.AuthHandle{Handle: index, Name: public.NVName, Auth: tpm2.PasswordAuth(nil)}
		at := tpm2.NamedHandle{Handle: index, Name: public.NVName}
		var has []byte
		for offset := uint16(0); offset < area.DataSize; offset += 500 {
			part, err := tpm2.NVRead{AuthHandle: by, NVIndex: at, Size: min(500, area.DataSize-offset), Offset: offset}.Execute(guest)
			require.NoError(t, err)
			has = append(has, part.Data.Buffer...)
		}
		require.Equal(t, cloud.gave[i], has)
		for _, who := range []tpm2.AuthHandle{by, byOwner, {Handle: tpm2.TPMRHPlatform, Auth: tpm2.PasswordAuth(nil)}} {
			_, err := tpm2.NVWrite{AuthHandle: who, NVIndex: at, Data: tpm2.TPM2BMaxNVBuffer{Buffer: []byte("other")}}.Execute(guest)
			require.Error(t, err)
		}
	}
}

// Where nobody certifies keys, and of a TPM 1.2, libvirt makes the state.
func TestANewTPMWithoutCertificates(t *testing.T) {
	t.Parallel()
	a, of, passphrase := made(t, &endorser{off: true})
	require.NoError(t, a.Make(t.Context(), of, passphrase()))
	require.NoDirExists(t, filepath.Join(a.SwtpmDir, of.Server.String(), "tpm2"))
	require.DirExists(t, filepath.Join(a.SwtpmDir, of.Server.String()))
	a, of, passphrase = made(t, &endorser{})
	of.Version = compute.TPM12
	require.NoError(t, a.Make(t.Context(), of, passphrase()))
	require.NoDirExists(t, filepath.Join(a.SwtpmDir, of.Server.String(), "tpm2"))
}
