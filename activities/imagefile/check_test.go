package imagefile_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/imagefile"
	"strongroom/activities/imagefile/hostile"
	"strongroom/compute"
)

// H5, M3: what an image's own header shows is found without any program.
func TestH5CheckRefusesHostileHeaders(t *testing.T) {
	t.Parallel()
	for _, f := range hostile.Files("/etc/passwd") {
		if f.Format == "vmdk" {
			continue
		}
		require.Error(t, imagefile.Check(f.Format, bytes.NewReader(f.Data), int64(len(f.Data))), f.Name)
	}
	for _, f := range append(hostile.Sound(), hostile.Raws("/etc/passwd")...) {
		require.NoError(t, imagefile.Check(f.Format, bytes.NewReader(f.Data), int64(len(f.Data))), f.Name)
		require.NoError(t, imagefile.CheckHead(f.Format, f.Data[:min(len(f.Data), imagefile.HeadBytes)]), f.Name)
	}
}

// No header makes the check panic, run on or use memory.
func FuzzCheck(f *testing.F) {
	for _, file := range append(hostile.Files("/etc/passwd"), hostile.Sound()...) {
		f.Add(file.Format, file.Data)
	}
	f.Fuzz(func(_ *testing.T, format string, data []byte) {
		_ = imagefile.CheckHead(format, data[:min(len(data), imagefile.HeadBytes)])
		_ = imagefile.Check(format, bytes.NewReader(data), int64(len(data)))
	})
}

// What qemu-img itself makes, in every shape, is taken.
func TestCheckTakesWhatQEMUMakes(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("qemu-img"); err != nil && os.Getenv("CI") == "" {
		t.Skip("needs qemu-img")
	}
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte("a passphrase"), 0o600))
	encrypted := ",encrypt.format=luks,encrypt.key-secret=k,encrypt.iter-time=10,encrypt.hash-alg=sha512"
	for _, c := range []struct{ format, options, bytes string }{
		{"qcow2", "compat=0.10", "1M"},
		{"qcow2", "compat=1.1,cluster_size=512", "1G"},
		{"qcow2", "compat=1.1,cluster_size=2M", "1M"},
		{"qcow2", "compat=1.1,extended_l2=on", "8T"},
		{"qcow2", "compat=1.1,compression_type=zstd", "1M"},
		{"qcow2", "compat=1.1,refcount_bits=1,lazy_refcounts=on,preallocation=metadata", "64M"},
		{"qcow2", "compat=1.1" + encrypted, "512"},
		{"qcow2", "compat=1.1,cluster_size=512" + encrypted, "1M"},
		{"qcow2", "compat=0.10,cluster_size=2M" + encrypted, "1G"},
		{"luks", "key-secret=k,iter-time=10,hash-alg=sha512", "1M"},
	} {
		path := filepath.Join(t.TempDir(), "image")
		var out []byte
		err := errors.New("not tried")
		for attempt := 0; err != nil && attempt < 20; attempt++ { // its benchmark fails by chance
			out, err = exec.Command("qemu-img", "create", "-q", "-f", c.format, "--object", "secret,id=k,file="+key, "-o", c.options, path, c.bytes).CombinedOutput()
		}
		require.NoError(t, err, "%s: %s", c.options, out)
		file, err := os.Open(path)
		require.NoError(t, err)
		info, err := file.Stat()
		require.NoError(t, err)
		require.NoError(t, imagefile.Check(c.format, file, info.Size()), c.options)
		require.NoError(t, file.Close())
	}
}

// H5: what of an image QEMU would keep in memory, or open beside its first header, is refused, in
// words that say how to mend it; what it passes by is taken.
func TestH5WhatAnImageMayHold(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("qemu-img"); err != nil && os.Getenv("CI") == "" {
		t.Skip("needs qemu-img")
	}
	path := filepath.Join(t.TempDir(), "image")
	qemu := func(name string, args ...string) {
		t.Helper()
		out, err := exec.Command(name, args...).CombinedOutput()
		require.NoError(t, err, "%s %v: %s", name, args, out)
	}
	check := func() error {
		t.Helper()
		file, err := os.Open(path)
		require.NoError(t, err)
		defer file.Close()
		info, err := file.Stat()
		require.NoError(t, err)
		return imagefile.Check("qcow2", file, info.Size())
	}
	raw := filepath.Join(t.TempDir(), "raw")
	require.NoError(t, os.WriteFile(raw, bytes.Repeat([]byte("the same again"), 1<<17), 0o600))
	qemu("qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", "-o", "compression_type=zstd,extended_l2=on,cluster_size=64k", raw, path)
	require.NoError(t, check(), "compressed by zstd, extended L2 entries")

	qemu("qemu-img", "snapshot", "-c", "first", path)
	qemu("qemu-img", "snapshot", "-c", "second", path)
	require.NoError(t, check(), "internal snapshots")

	qemu("qemu-img", "bitmap", "--add", path, "dirty")
	err := check()
	require.ErrorIs(t, err, imagefile.ErrBitmaps)
	public := compute.Public(compute.Errorf(compute.Corrupt, "image %s cannot be used: %w", "i", err))
	require.Contains(t, public, "qemu-img bitmap --remove")
	qemu("qemu-img", "bitmap", "--remove", path, "dirty")
	require.NoError(t, check(), "as the text says")
	for _, f := range hostile.Files("/etc/passwd") {
		if strings.HasPrefix(f.Name, "LUKS in qcow2 twice") {
			require.ErrorIs(t, imagefile.Check("qcow2", bytes.NewReader(f.Data), int64(len(f.Data))), imagefile.ErrHeaders, f.Name)
		}
	}
}
