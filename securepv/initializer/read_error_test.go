package initializer_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/securepv/initializer"
)

// A device of which a part cannot be read is not taken for a new one, wherever that part is, nor is one whose
// header cannot be read: nothing is written, and it opens when it can be read again.
func TestPV11ReadErrorsLeadToNoFormat(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("qemu-storage-daemon"); err != nil && os.Getenv("CI") == "" {
		t.Skip("needs qemu-storage-daemon")
	}
	for _, formatted := range []bool{false, true} {
		for _, at := range []int64{0, 4096, copyBytes, areaOffset, 20 << 20, deviceBytes - 4096} {
			if formatted && at >= headBytes {
				continue // dm-integrity's
			}
			t.Run(fmt.Sprintf("formatted %v at %d", formatted, at), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				if formatted {
					b.opens()
					require.NoError(t, os.WriteFile(b.data(), []byte("kept"), 0o600))
					b.closes()
				}
				before, formats := b.sum(), b.kernel.formats()
				whole := b.volume.Device
				stop := b.spoil(at)
				_, err := b.open(seed)
				stop()
				var r *initializer.Refused
				require.ErrorIs(t, err, syscall.EIO)
				require.NotErrorAs(t, err, &r, "it may be read the next time")
				b.volume.Device = whole
				require.Equal(t, before, b.sum())
				require.Equal(t, formats, b.kernel.formats())
				b.opens()
				if formatted {
					got, err := os.ReadFile(b.data())
					require.NoError(t, err)
					require.Equal(t, "kept", string(got))
				}
				b.closes()
			})
		}
	}
}

// spoil puts a device in the place of the volume's which is that, but for a sector that cannot be read.
func (b *bench) spoil(at int64) (stop func()) {
	b.t.Helper()
	dir := filepath.Join(b.kernel.dir, "spoilt") // its name, and so its mapping's, stays
	require.NoError(b.t, os.Mkdir(dir, 0o700))
	file := filepath.Join(dir, filepath.Base(b.volume.Device))
	require.NoError(b.t, os.WriteFile(file, nil, 0o600))
	c := exec.Command("qemu-storage-daemon",
		"--blockdev", fmt.Sprintf("driver=blkdebug,node-name=n,image.driver=file,image.filename=%s,inject-error.0.event=none,inject-error.0.iotype=read,inject-error.0.errno=5,inject-error.0.sector=%d", b.volume.Device, at/512),
		"--export", "type=fuse,id=e,node-name=n,writable=on,mountpoint="+file)
	c.Stderr = b.t.Output()
	require.NoError(b.t, c.Start())
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = c.Process.Signal(syscall.SIGTERM)
			_ = c.Wait()
		}
	}
	b.t.Cleanup(stop)
	require.Eventually(b.t, func() bool { info, err := os.Stat(file); return err == nil && info.Size() == deviceBytes }, time.Minute, 10*time.Millisecond)
	b.volume.Device = file
	return stop
}
