package disk_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/compute"
)

var deviceFormats = []compute.DiskFormat{compute.FormatLUKSv2, compute.FormatPlain}

var deviceOptions = map[compute.DiskFormat]map[string]string{
	compute.FormatLUKSv2: {"format": "luksv2", "cipher-alg": "aes-256", "cipher-mode": "xts", "ivgen-alg": "plain64", "key-size": "512",
		"hash-alg": "sha256", "pbkdf": "pbkdf2", "iterations": "10000", "sector-size": "512"},
	compute.FormatPlain: {"format": "plain", "cipher-alg": "aes-256", "cipher-mode": "xts", "ivgen-alg": "plain64", "key-size": "512",
		"hash-alg": "ripemd160"},
}

// Disks of the formats luksv2 and plain are what they say, and gone when they are to
// be gone, on a stock kernel with LVM and cryptsetup (EE-04, EE-05, EE-08).
func TestDevices(t *testing.T) {
	t.Parallel()
	b := inMachine(t)
	if b == nil {
		return
	}
	formats, err := b.DeviceFormats(t.Context())
	require.NoError(t, err)
	require.Equal(t, deviceFormats, formats)
	room, err := b.DeviceRoomMB(t.Context())
	require.NoError(t, err)
	require.Positive(t, *room)
	raw := b.cached(t, "raw", imageData())
	qcow2 := b.cached(t, "qcow2", asQcow2(t, imageData()))

	t.Run("room", func(t *testing.T) { b.hasRoom(t, *room) })
	t.Run("luksv2 root", func(t *testing.T) { b.device(t, compute.FormatLUKSv2, qcow2).livesThrough(t) })
	t.Run("plain root", func(t *testing.T) { b.device(t, compute.FormatPlain, raw).livesThrough(t) })
	t.Run("plain empty", func(t *testing.T) { b.device(t, compute.FormatPlain, nil).livesThrough(t) })
	t.Run("image of luksv2", func(t *testing.T) { b.device(t, compute.FormatLUKSv2, raw).becomesAnImage(t, compute.KeySame) })
	t.Run("image of plain", func(t *testing.T) { b.device(t, compute.FormatPlain, raw).becomesAnImage(t, compute.KeyNone) })
	t.Run("killed", func(t *testing.T) { b.diesAtEveryStep(t, raw) })
	t.Run("half opened", func(t *testing.T) { b.halfOpened(t, raw) })
	b.refuses(t)
}

// hasRoom: what disks take is room for disks, what is another's is none.
func (b *testBundle) hasRoom(t *testing.T, all int64) {
	d := b.device(t, compute.FormatPlain, nil)
	_, err := d.Create(t.Context(), d.CreateInput)
	require.NoError(t, err)
	run(t, "lvm", "lvcreate", "--quiet", "--yes", "--size", "8m", "--name", "another", volumeGroup)
	left, err := b.DeviceRoomMB(t.Context())
	require.NoError(t, err)
	require.Equal(t, all-8, *left)
	run(t, "lvm", "lvremove", "--quiet", "--yes", volumeGroup+"/another")
	d.gone(t)
}

func asQcow2(t *testing.T, raw []byte) []byte {
	t.Helper()
	from, to := filepath.Join(t.TempDir(), "raw"), filepath.Join(t.TempDir(), "qcow2")
	require.NoError(t, os.WriteFile(from, raw, 0o600))
	run(t, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", from, to)
	data, err := os.ReadFile(to)
	require.NoError(t, err)
	return data
}

func (d *device) livesThrough(t *testing.T) {
	var both sync.WaitGroup // an attempt that timed out and its successor
	for range 2 {
		both.Go(func() {
			got, err := d.Create(t.Context(), d.CreateInput)
			require.NoError(t, err)
			require.Equal(t, deviceOptions[d.Disk.Format], got.EncryptionOptions)
			require.Equal(t, d.Image != nil, got.Whole)
		})
	}
	both.Wait()
	require.Empty(t, opened(t), "a disk is open for as long as it must be")
	require.Equal(t, []string{d.volume()}, volumes(t))
	got := d.seen(t, compute.ThingDiskFile)
	require.Equal(t, []string{d.Server.String() + "/" + d.Disk.Name()}, got)

	path := d.open(t)
	require.Equal(t, path, d.open(t), "twice is once")
	require.Equal(t, []string{d.volume() + "-dmcrypt"}, opened(t))
	again, err := d.Create(t.Context(), d.CreateInput)
	require.NoError(t, err)
	require.Equal(t, deviceOptions[d.Disk.Format], again.EncryptionOptions)
	require.Len(t, opened(t), 1, "it was open, and is")
	if d.Image == nil {
		writeImage(t, path)
	}
	readImage(t, path)
	writeGuest(t, path)
	for range 2 {
		require.NoError(t, d.CloseDevices(t.Context(), d.Server))
	}
	require.Empty(t, opened(t))
	d.guest(t, readGuest)

	raw := readAt(t, "/dev/"+volumeGroup+"/"+d.volume(), 0, diskMiB<<20)
	for _, s := range stretches {
		if s.guest != 0 {
			require.False(t, bytes.Contains(raw, bytes.Repeat([]byte{s.guest}, 64)), "plain text %x", s.guest)
		}
	}
	require.NotContains(t, strings.Join(d.runner.args, " "), d.key)
	d.gone(t)
	require.NoError(t, d.Remove(t.Context(), ofFile(d.Server, d.Disk.Name())))
	require.Empty(t, d.files(t))
	got = d.seen(t, compute.ThingDiskFile)
	require.Empty(t, got)
}

// becomesAnImage copies a stopped server's disk (EE-16, EE-19).
func (d *device) becomesAnImage(t *testing.T, choice compute.KeyChoice) {
	_, err := d.Create(t.Context(), d.CreateInput)
	require.NoError(t, err)
	d.guest(t, writeGuest)
	in := disk.ExportInput{Server: d.Server, Operation: compute.NewOperationID(), Disk: d.Disk, Image: d.Image,
		Target: compute.ExportTarget{Format: compute.ImageQcow2, Key: choice}}
	key := ""
	if choice == compute.KeySame {
		in.Target.Secret, _ = d.secret(t)
		d.keys[*in.Target.Secret], key = d.key, d.key
	}
	done, err := d.Export(t.Context(), in)
	require.NoError(t, err)
	require.Empty(t, opened(t))
	require.EqualValues(t, diskMiB<<20, done.VirtualBytes)
	require.Equal(t, key != "", done.EncryptionOptions != nil)

	options := "driver=qcow2,file.filename=" + filepath.Join(d.InstancesDir, done.File)
	if key != "" {
		options += ",encrypt.key-secret=key"
	}
	copied := filepath.Join(t.TempDir(), "copied")
	out, err := qemu(t, "qemu-img", key, "", "convert", "--image-opts", options, "-O", "raw", copied)
	require.NoError(t, err, string(out))
	readGuest(t, copied)
	require.NoError(t, d.Remove(t.Context(), ofFile(in.Server, compute.ExportFolder(in.Operation))))
	d.guest(t, readGuest)
	d.gone(t)
}
