package disk_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/activities/disk"
	"strongroom/compute"
)

// hasRoom gives one of the host's folders a file system of so many MiB.
func hasRoom(t *testing.T, folder string, mib int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	require.NoError(t, unix.Mount("none", folder, "tmpfs", unix.MS_NODEV|unix.MS_NOSUID, fmt.Sprintf("mode=0711,size=%dm", mib)))
	// A program that another test starts has the open files of this process until it runs, so that the file system is busy for that moment.
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return unix.Unmount(folder, 0) == nil }, time.Minute, 10*time.Millisecond, "somebody keeps a file open")
	})
}

// runsOn has QEMU hold a disk open, as while its guest runs, until the function is called that it gives.
func runsOn(t *testing.T, path string) (off func()) {
	t.Helper()
	guest := exec.Command("qemu-io", path)
	in, err := guest.StdinPipe()
	require.NoError(t, err)
	out, err := guest.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, guest.Start())
	_, err = out.Read(make([]byte, 1)) // its prompt: the file is open
	require.NoError(t, err)
	return func() {
		require.NoError(t, in.Close())
		_, err := io.Copy(io.Discard, out)
		require.NoError(t, err)
		require.NoError(t, guest.Wait())
	}
}

// reserved is what a host keeps free, in MiB.
const reserved = 64

// What would be sent is told while the guest runs, and what could not be sent is refused.
func TestCheckMove(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.resized(t, false, nil)
	check := func(of ...compute.Disk) (int64, error) {
		got, err := b.CheckMove(t.Context(), disk.CheckMoveInput{Server: r.Server, Disks: of})
		return got.Bytes, err
	}
	off := runsOn(t, r.path(r.From))
	before, err := check(r.From)
	require.NoError(t, err)
	off()
	var st syscall.Stat_t
	require.NoError(t, syscall.Stat(r.path(r.From), &st))
	require.GreaterOrEqual(t, before, min(st.Size, st.Blocks*512))
	require.LessOrEqual(t, before, st.Size)
	r.io(t, r.From, "write -P 0x77 2M 5M")
	after, err := check(r.From)
	require.NoError(t, err)
	require.GreaterOrEqual(t, after, before+5<<20)
	twice, err := check(r.From, r.From)
	require.NoError(t, err)
	require.Equal(t, 2*after, twice)

	gone, volume, pooled := r.From, r.From, r.From
	gone.File, volume.Encrypted, volume.Format, pooled.File = "disk.gone", true, compute.FormatLUKSv2, "disk.pooled"
	require.NoError(t, os.Symlink("rbd:servers/x", r.path(pooled)))
	for d, kind := range map[*compute.Disk]compute.Kind{&gone: compute.Corrupt, &volume: compute.Conflict, &pooled: compute.Conflict} {
		_, err := check(r.From, *d)
		require.Equal(t, kind, compute.KindOf(err), "%s: %v", d.File, err)
	}
}

// A host takes disks up to what its file system has free beside its reserve.
func TestCheckRoom(t *testing.T) {
	t.Parallel()
	b := setup(t)
	check := func(in disk.CheckRoomInput) error {
		in.Server = newServer()
		return b.CheckRoom(t.Context(), in)
	}
	fits := func(in disk.CheckRoomInput) {
		t.Helper()
		require.NoError(t, check(in))
		in.Bytes++
		err := check(in)
		require.Equal(t, compute.NoHost, compute.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "MiB free")
	}
	hasRoom(t, b.InstancesDir, reserved+100)
	fits(disk.CheckRoomInput{Bytes: 100 << 20})
	fits(disk.CheckRoomInput{Disks: 5, Bytes: 80 << 20})
	require.NoError(t, os.WriteFile(filepath.Join(b.InstancesDir, "another's"), make([]byte, 30<<20), 0o600))
	fits(disk.CheckRoomInput{Bytes: 70 << 20})
	img := b.image("raw", make([]byte, 50<<20))
	fits(disk.CheckRoomInput{Bytes: 70 << 20, Image: &img}) // its cache is elsewhere

	b.Pool.Name = "servers"
	err := check(disk.CheckRoomInput{})
	require.Equal(t, compute.NoHost, compute.KindOf(err))
	require.ErrorContains(t, err, "this host keeps disks in a pool")
}

// Where disks and images are in one file system, an image counts that the host does not have yet,
// but for what the cache gives up for it.
func TestCheckRoomForAnImage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hasRoom(t, filepath.Dir(b.InstancesDir), reserved+100)
	require.NoError(t, errors.Join(os.Mkdir(b.InstancesDir, 0o711), os.Mkdir(b.CacheDir, 0o711)))
	img := b.image("raw", make([]byte, 20<<20))
	b.CacheBytes = 60 << 20
	fits := func(mib int64) {
		t.Helper()
		in := disk.CheckRoomInput{Server: newServer(), Bytes: mib << 20, Image: &img}
		require.NoError(t, b.CheckRoom(t.Context(), in))
		in.Bytes += 1 << 20
		err := b.CheckRoom(t.Context(), in)
		require.Equal(t, compute.NoHost, compute.KindOf(err), "%v", err)
	}
	fits(80)
	old := filepath.Join(b.CacheDir, "of others")
	require.NoError(t, os.WriteFile(old, make([]byte, 50<<20), 0o600))
	fits(40)
	require.NoError(t, os.Remove(old))
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: img}))
	fits(79) // its note takes a page
}

// Copies must have room beside each other. What cannot have one is refused while the guest runs.
func TestCheckExport(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hasRoom(t, b.InstancesDir, reserved+100)
	e := b.exported(t, nil, false)
	e.Target.Restorable = true
	check := func(copies ...disk.ExportInput) error {
		return b.CheckExport(t.Context(), disk.CheckExportInput{Copies: copies})
	}
	free := func() int64 {
		var fs syscall.Statfs_t
		require.NoError(t, syscall.Statfs(b.InstancesDir, &fs))
		return int64(fs.Bavail) * fs.Bsize
	}
	path := filepath.Join(b.InstancesDir, e.Server.String(), e.Disk.Name())
	file, err := os.Stat(path)
	require.NoError(t, err)
	most := (file.Size() + 4<<20 + 4095) &^ 4095
	filler := filepath.Join(b.InstancesDir, "another's")
	require.NoError(t, os.WriteFile(filler, make([]byte, free()-reserved<<20-2*most), 0o600))
	off := runsOn(t, path)
	require.NoError(t, check(e.ExportInput, e.ExportInput))
	require.NoError(t, os.WriteFile(filler+" too", make([]byte, 8<<10), 0o600))
	err = check(e.ExportInput, e.ExportInput)
	require.Equal(t, compute.NoHost, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "MiB free")
	require.NoError(t, check(e.ExportInput))
	off()
	before := free()
	_, err = b.Export(t.Context(), e.ExportInput)
	require.NoError(t, err)
	require.LessOrEqual(t, before-free(), most)

	gone, pooled := e.ExportInput, e.ExportInput
	gone.Disk.File, pooled.Disk.File = "disk.gone", "disk.pooled"
	require.Equal(t, compute.Corrupt, compute.KindOf(check(e.ExportInput, gone)))
	b.Pool.Name = "servers"
	require.NoError(t, os.Symlink("rbd:servers/x", filepath.Join(filepath.Dir(path), "disk.pooled")))
	err = check(e.ExportInput, pooled)
	require.Equal(t, compute.Conflict, compute.KindOf(err))
	require.ErrorContains(t, err, "cannot be shelved")
}
