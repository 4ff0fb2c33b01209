package tpm_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/tpm"
	"strongroom/compute"
)

// swtpm runs a vTPM on a host's state of it, as QEMU does, until it is stopped.
func (h host) swtpm() (chip transport.TPM, stop func()) {
	h.t.Helper()
	dir, err := os.MkdirTemp("", "swtpm")
	require.NoError(h.t, err)
	path := filepath.Join(dir, "chip")
	cmd := exec.Command("swtpm", "socket", "--tpm2", "--server", "type=unixio,path="+path, "--tpmstate", "dir="+h.path("tpm2"), //nolint:gosec // a test's own
		"--flags", "not-need-init,startup-clear")
	cmd.Stderr = os.Stderr
	require.NoError(h.t, cmd.Start())
	var conn net.Conn
	require.Eventually(h.t, func() bool {
		conn, err = net.Dial("unix", path)
		return err == nil
	}, time.Minute, 5*time.Millisecond)
	return transport.FromReadWriter(conn), func() {
		_ = conn.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
}

const counter = tpm2.TPMHandle(0x01500042)

var byOwner = tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth(nil)}

func named(t *testing.T, chip transport.TPM) tpm2.NamedHandle {
	t.Helper()
	public, err := tpm2.NVReadPublic{NVIndex: counter}.Execute(chip)
	require.NoError(t, err)
	return tpm2.NamedHandle{Handle: counter, Name: public.NVName}
}

// counts gives what a chip has counted.
func counts(t *testing.T, chip transport.TPM) int64 {
	t.Helper()
	got, err := tpm2.NVRead{AuthHandle: byOwner, NVIndex: named(t, chip), Size: 8}.Execute(chip)
	require.NoError(t, err)
	return int64(binary.BigEndian.Uint64(got.Data.Buffer)) //nolint:gosec // a small number
}

// TPM-30: a backup of a chip that is at work is one that it would have after a loss of power: each
// is whole, and has counted to what the chip had when it was made.
func TestBackUpOfAChipAtWork(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it gives files to others")
	}
	from, _, objects := hosts(t)
	require.NoError(t, os.MkdirAll(from.path("tpm2"), 0o700))
	chip, stop := from.swtpm()
	defer stop()
	area := tpm2.New2B(tpm2.TPMSNVPublic{
		NVIndex: counter, NameAlg: tpm2.TPMAlgSHA256, DataSize: 8,
		Attributes: tpm2.TPMANV{OwnerRead: true, OwnerWrite: true, NoDA: true, NT: tpm2.TPMNTCounter},
	})
	_, err := tpm2.NVDefineSpace{AuthHandle: byOwner, PublicInfo: area}.Execute(chip)
	require.NoError(t, err)
	index := named(t, chip)
	increment := func() error {
		_, err := tpm2.NVIncrement{AuthHandle: byOwner, NVIndex: index}.Execute(chip)
		return err
	}
	require.NoError(t, increment())
	index = named(t, chip) // it has another name once it is written
	start := counts(t, chip)
	var counted atomic.Int64
	counted.Store(start)
	const most = 400
	ended := make(chan error, 1)
	go func() {
		for range most {
			if err := increment(); err != nil {
				ended <- err
				return
			}
			counted.Add(1)
		}
		ended <- nil
	}()
	type made struct {
		stored        compute.StoredTPM
		least, atMost int64
	}
	var backups []made
	for n := 0; counted.Load() < start+most && n < 100; n++ {
		least := counted.Load()
		name := compute.TPMBackupObject(from.server, compute.OperationID(fmt.Sprintf("req-%d", n)))
		got, err := from.BackUp(t.Context(), tpm.SaveInput{Credential: cred, Server: from.server, Object: name})
		require.NoError(t, err)
		backups = append(backups, made{compute.StoredTPM{Object: name, SHA256: got.SHA256}, least, counted.Load() + 1})
	}
	require.NoError(t, <-ended)
	require.Greater(t, len(backups), 3, "the chip was too quick")
	for n := 0; n < len(backups); n += max(1, len(backups)/8) {
		b := backups[n]
		at, err := tpm.New(tpm.Config{SwtpmDir: filepath.Join(t.TempDir(), "swtpm"), Objects: stored{objects}, User: "root", Group: "root"})
		require.NoError(t, err)
		to := host{at, t, from.server}
		require.NoError(t, to.restore("req-restore", b.stored))
		copied, end := to.swtpm()
		has := counts(t, copied)
		end()
		require.GreaterOrEqual(t, has, b.least)
		require.LessOrEqual(t, has, b.atMost)
	}
}

// What swtpm is about to write, or keeps for a guest that sleeps, is in no backup; a state that
// has not changed gives the same digest whatever happened beside it. A retry finds what the attempt
// before has stored, also where the chip went on meanwhile.
func TestBackUpAndDigest(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it gives files to others")
	}
	from, to, _ := hosts(t)
	from.has("some state")
	name := compute.TPMBackupObject(from.server, "req-1")
	in := tpm.SaveInput{Credential: cred, Server: from.server, Object: name}
	first, err := from.BackUp(t.Context(), in)
	require.NoError(t, err)
	same := func() bool {
		got, err := from.Digest(t.Context(), tpm.DigestInput{Server: from.server})
		require.NoError(t, err)
		return got.SHA256 == first.SHA256
	}
	require.True(t, same())
	for _, beside := range []string{"TMP2-00.permall", "tpm2-00.volatilestate"} {
		require.NoError(t, os.WriteFile(from.path("tpm2", beside), []byte("half a st"), 0o600))
	}
	require.NoError(t, os.Chtimes(from.path("tpm2"), time.Now(), time.Now().Add(time.Hour)))
	require.True(t, same())
	from.has("another state")
	require.False(t, same())
	again, err := from.BackUp(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.NoError(t, to.restore("req-2", compute.StoredTPM{Object: name, SHA256: first.SHA256}))
	require.Equal(t, "some state", to.state())
	left, err := os.ReadDir(to.path("tpm2"))
	require.NoError(t, err)
	require.Len(t, left, 1)

	_, err = from.Digest(t.Context(), tpm.DigestInput{Server: compute.ServerID{UUID: uuid.New()}})
	require.Equal(t, compute.Corrupt, compute.KindOf(err))
	require.NoError(t, os.Remove(from.path("tpm2", "tpm2-00.permall")))
	_, err = from.BackUp(t.Context(), in)
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "it is half a state")
}
