package luks_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk/luks"
)

// The programs that must open what is written are asked themselves.
func TestOthersOpenTheHeader(t *testing.T) {
	t.Parallel()
	passphrase := []byte("correct horse battery staple")
	disk := newDisk(t, passphrase)
	for name, opens := range map[string]func(passphrase []byte) ([]byte, error){
		"qemu-img": func(p []byte) ([]byte, error) {
			return run(p, "qemu-io", "--object", "secret,id=k,file=/dev/stdin", "--image-opts",
				"driver=luks,key-secret=k,file.filename="+disk, "-c", "write -P 7 0 64k", "-c", "read -P 7 0 64k")
		},
		"cryptsetup": func(p []byte) ([]byte, error) {
			return run(p, "cryptsetup", "open", "--test-passphrase", "--key-file", "-", disk)
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := opens(passphrase)
			require.NoError(t, err, "%s", out)
			out, err = opens([]byte("another"))
			require.Error(t, err, "%s", out)
		})
	}
	out, err := run(nil, "cryptsetup", "luksDump", disk)
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "xts-plain64")
	require.Contains(t, string(out), "Key Slot 1: DISABLED")
}

// QEMU reads what a container holds.
func TestOthersReadAContainer(t *testing.T) {
	t.Parallel()
	passphrase, content := first, bytes.Repeat([]byte("what is in it "), 1000)
	path := filepath.Join(t.TempDir(), "container")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, luks.WriteContainer(f, passphrase, content))
	require.NoError(t, f.Close())
	sealed, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Zero(t, (len(sealed)-luks.Bytes)%512)
	require.False(t, bytes.Contains(sealed, []byte("what is in it")))
	plain := path + ".plain"
	out, err := run(passphrase, "qemu-img", "convert", "-O", "raw", "--object", "secret,id=k,file=/dev/stdin",
		"--image-opts", "driver=luks,key-secret=k,file.filename="+path, plain)
	require.NoError(t, err, "%s", out)
	got, err := os.ReadFile(plain)
	require.NoError(t, err)
	require.Equal(t, content, bytes.TrimRight(got, "\x00"))
}

// No two headers share a master key, and none holds the passphrase.
func TestEveryHeaderIsAnother(t *testing.T) {
	t.Parallel()
	passphrase := first
	a, err := os.ReadFile(newDisk(t, passphrase))
	require.NoError(t, err)
	b, err := os.ReadFile(newDisk(t, passphrase))
	require.NoError(t, err)
	require.NotEqual(t, a, b)
	require.False(t, bytes.Contains(a, passphrase))
}

func BenchmarkWrite(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "disk"))
	require.NoError(b, err)
	for b.Loop() {
		require.NoError(b, luks.Write(f, 0, []byte("passphrase")))
	}
	require.NoError(b, f.Close())
}

func newDisk(t *testing.T, passphrase []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, luks.Write(f, 0, passphrase))
	require.NoError(t, f.Truncate(luks.Bytes+1<<20))
	require.NoError(t, f.Close())
	return path
}

func run(stdin []byte, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	return cmd.CombinedOutput()
}
