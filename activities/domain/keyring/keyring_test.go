package keyring_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/activities/domain/keyring"
	"strongroom/activities/secret"
	"strongroom/compute"
)

func open(t *testing.T) (*keyring.Keyring, compute.HostID) {
	t.Helper()
	host := compute.HostID{UUID: uuid.New()}
	k, err := keyring.Open(host)
	if os.Getenv("CI") == "" && (strings.Contains(errText(err), "not permitted") || strings.Contains(errText(err), "not implemented")) {
		t.Skip("needs the kernel's keyring")
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Clear()) })
	return k, host
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func server() compute.ServerID { return compute.ServerID{UUID: uuid.New()} }
func secretID() compute.SecretID {
	return compute.SecretID{UUID: uuid.New()}
}

func keeps(t *testing.T, k *keyring.Keyring, s compute.ServerID, id compute.SecretID, value string) {
	t.Helper()
	p := secret.New([]byte(value))
	defer p.Wipe()
	require.NoError(t, k.Keep(s, compute.KeysOfDisks, id, p))
}

func has(t *testing.T, k *keyring.Keyring, s compute.ServerID, id compute.SecretID) (value string) {
	t.Helper()
	p, err := k.Passphrase(s, id)
	require.NoError(t, err)
	defer p.Wipe()
	require.NoError(t, p.Use(func(v []byte) error { value = string(v); return nil }))
	return value
}

func kept(t *testing.T, k *keyring.Keyring) map[compute.ServerID][]compute.SecretID {
	t.Helper()
	all, err := k.Kept()
	require.NoError(t, err)
	return all
}

// What is kept is there for whoever has the host's keyring open, by server and secret, until it is
// forgotten; another host of the same kernel has its own.
func TestKeep(t *testing.T) {
	t.Parallel()
	k, host := open(t)
	other, _ := open(t)
	require.Empty(t, kept(t, k), "the probe is gone")
	one, two, a, b := server(), server(), secretID(), secretID()
	long := strings.Repeat("x", 512) // a vTPM's
	keeps(t, k, one, a, long)
	keeps(t, k, one, b, "second")
	keeps(t, k, two, a, "of another server")
	require.Equal(t, long, has(t, k, one, a))
	keeps(t, k, one, a, "newer")

	again := keyring.Of(host) // another process, say
	require.Equal(t, "newer", has(t, again, one, a))
	require.Equal(t, "second", has(t, again, one, b))
	require.Equal(t, "of another server", has(t, again, two, a))
	all := kept(t, again)
	require.Len(t, all, 2)
	require.ElementsMatch(t, []compute.SecretID{a, b}, all[one])
	require.Empty(t, kept(t, other))
	_, err := other.Passphrase(one, a)
	require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)

	require.NoError(t, k.Forget(one))
	require.NoError(t, k.Forget(one))
	_, err = k.Passphrase(one, a)
	require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
	require.Equal(t, map[compute.ServerID][]compute.SecretID{two: {a}}, kept(t, k))
	keeps(t, k, one, a, "started again")
	require.Equal(t, "started again", has(t, k, one, a))
	require.NoError(t, k.Clear())
	require.Empty(t, kept(t, k))
}

// EE-30: the keys of disks are forgotten by themselves. That of a vTPM stays, and is found as they are.
func TestForgetDisks(t *testing.T) {
	t.Parallel()
	k, host := open(t)
	s, disk, tpm := server(), secretID(), secretID()
	keeps(t, k, s, disk, "disk")
	p := secret.New([]byte("vTPM"))
	defer p.Wipe()
	require.NoError(t, k.Keep(s, compute.KeyOfTPM, tpm, p))
	require.ElementsMatch(t, []compute.SecretID{disk, tpm}, kept(t, k)[s])
	require.NoError(t, keyring.Of(host).ForgetDisks())
	require.Equal(t, map[compute.ServerID][]compute.SecretID{s: {tpm}}, kept(t, k))
	require.Equal(t, "vTPM", has(t, k, s, tpm))
	require.NoError(t, k.Forget(s))
	require.Empty(t, kept(t, k))
}

// A key that somebody at the host revoked is not there.
func TestARevokedKeyIsGone(t *testing.T) {
	t.Parallel()
	k, host := open(t)
	s, id := server(), secretID()
	keeps(t, k, s, id, "value")
	serial, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, "user", "strongroom:"+host.String()+":"+s.String()+":"+id.String(), 0)
	require.NoError(t, err)
	_, err = unix.KeyctlInt(unix.KEYCTL_REVOKE, serial, 0, 0, 0)
	require.NoError(t, err)
	_, err = k.Passphrase(s, id)
	require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
	require.Empty(t, kept(t, k))
	require.NoError(t, k.Forget(s))
}

// The keys are there also in a session keyring of its own, as systemd gives services one, and for no
// other user. What the kernel shows of them has no secret.
func TestWhoFindsTheKeys(t *testing.T) {
	t.Parallel()
	k, host := open(t)
	s, id := server(), secretID()
	keeps(t, k, s, id, "the value of it")
	keys, err := os.ReadFile("/proc/keys")
	require.NoError(t, err)
	require.Contains(t, string(keys), "strongroom:"+host.String()+":"+s.String()+":"+id.String())
	require.NotContains(t, string(keys), "the value of it", "INVARIANT")
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	binary := reachable(t)
	look := func(uid uint32) (string, error) {
		cmd := exec.Command(binary, "-test.run=^TestLook$", "-test.v")
		cmd.Env = append(os.Environ(), "KEYRING_TEST="+host.String()+" "+s.String()+" "+id.String())
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := look(0)
	require.NoError(t, err, out)
	require.Contains(t, out, "has 15 bytes")
	out, err = look(65534)
	require.Error(t, err)
	require.Contains(t, out, "this host does not keep the key")
}

// reachable is a copy of this program that any user can run.
func reachable(t *testing.T) (path string) {
	t.Helper()
	own, err := os.Executable()
	require.NoError(t, err)
	program, err := os.ReadFile(own)
	require.NoError(t, err)
	dir, err := os.MkdirTemp("/tmp", "sr-keyring-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o711)) // for another user
	path = filepath.Join(dir, "look")
	require.NoError(t, os.WriteFile(path, program, 0o755)) // for another user
	return path
}

// TestLook is what TestWhoFindsTheKeys has another process do.
func TestLook(t *testing.T) {
	ids := strings.Fields(os.Getenv("KEYRING_TEST"))
	if len(ids) != 3 {
		return
	}
	runtime.LockOSThread() // it has the session keyring
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	require.NoError(t, err)
	k := keyring.Of(compute.HostID{UUID: uuid.MustParse(ids[0])})
	p, err := k.Passphrase(compute.ServerID{UUID: uuid.MustParse(ids[1])}, compute.SecretID{UUID: uuid.MustParse(ids[2])})
	require.NoError(t, err)
	defer p.Wipe()
	t.Logf("it has %d bytes", p.Len())
}

// Many guests start at once.
func TestKeepSideBySide(t *testing.T) {
	t.Parallel()
	k, _ := open(t)
	var all sync.WaitGroup
	for range 20 {
		s := server()
		all.Go(func() {
			for range 20 {
				id := secretID()
				keeps(t, k, s, id, id.String())
				if got := has(t, k, s, id); got != id.String() {
					t.Errorf("secret %s is %q", id, got)
				}
			}
			if err := k.Forget(s); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Empty(t, kept(t, k))
}
