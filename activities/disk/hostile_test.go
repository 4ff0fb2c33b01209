package disk_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/activities/disk"
	"strongroom/activities/imagefile"
	"strongroom/activities/imagefile/hostile"
	"strongroom/compute"
)

// watched makes a file of the host that images name, and tells whether anybody opened it.
func watched(t *testing.T) (path string, opened func() bool) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("the host's"), 1000), 0o644))
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(watch) })
	_, err = unix.InotifyAddWatch(watch, path, unix.IN_OPEN|unix.IN_ACCESS|unix.IN_MODIFY)
	require.NoError(t, err)
	return path, func() bool {
		n, _ := unix.Read(watch, make([]byte, 4096))
		return n > 0
	}
}

func (b *testBundle) hostileImage(f hostile.File) (compute.Image, string) {
	img := b.image(f.Format, f.Data)
	if !f.Encrypted {
		return img, ""
	}
	img.Properties = map[string]string{"os_encrypt_key_id": uuid.NewString(), "os_encrypt_format": "LUKSv1"}
	use, err := img.CacheUse(project, newServer(), compute.Disk{Role: compute.RootDisk})
	if err != nil {
		panic(err)
	}
	return img, use
}

// H5, M3: whatever a tenant's image says, it is refused for good; nothing but its own
// bytes is read, and no program meets it.
func TestM3HostileImagesAreRefused(t *testing.T) {
	t.Parallel()
	outside, opened := watched(t)
	b := setup(t)
	for _, f := range hostile.Files(outside) {
		var mu sync.Mutex
		ran := 0
		b.runner.fail = func(c disk.Command) error {
			mu.Lock()
			defer mu.Unlock()
			ran++
			if !c.Limited || c.Image == nil {
				t.Errorf("%s: %s %v is not confined", f.Name, c.Name, c.Args)
			}
			return nil
		}
		img, use := b.hostileImage(f)
		err := b.CacheImage(t.Context(), disk.CacheImageInput{Image: img, Use: use})
		require.Contains(t, []compute.Kind{compute.Invalid, compute.Corrupt}, compute.KindOf(err), "%s: %v", f.Name, err)
		require.NotContains(t, err.Error(), outside, f.Name)
		require.Zero(t, ran, "%s: it met a program before it was looked at", f.Name)
		if f.Encrypted && f.Format != "vmdk" {
			require.NoError(t, b.Remove(t.Context(), ofUse(use)))
		}
		require.False(t, opened(), "%s: %s was opened", f.Name, outside)
	}
	for _, path := range b.cachedImages(t) {
		require.Equal(t, "encrypted", filepath.Base(path))
	}
	require.Empty(t, b.cacheFiles(t))
}

// What a host takes for the bytes that they are never leads it to another file.
func TestM3RawImagesLeadNowhere(t *testing.T) {
	t.Parallel()
	outside, opened := watched(t)
	b := setup(t)
	for _, f := range hostile.Raws(outside) {
		img := b.cached(t, f.Format, f.Data)
		_, err := b.Create(t.Context(), disk.CreateInput{Server: newServer(), Image: img, Disk: compute.Disk{ID: newDisk(), Role: compute.RootDisk}})
		require.NoError(t, err, f.Name)
	}
	require.False(t, opened())
}

// Those that differ from hostile ones by nothing but the harm are taken.
func TestSoundImagesAreTaken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, f := range hostile.Sound() {
		img, use := b.hostileImage(f)
		require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: img, Use: use}), f.Name)
	}
}

// H5: a check that meets its limit is a refusal for good, wherever it is made, and
// not something to try again.
func TestH5CostIsARefusalForGood(t *testing.T) {
	t.Parallel()
	data := qemuImage(t, "qcow2", "3M")
	for name, c := range map[string]struct {
		limits imagefile.Limits
		script string
	}{
		"CPU":    {imagefile.Limits{CPU: time.Second}, "while :; do :; done"},
		"output": {imagefile.Limits{}, "exec yes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			img := b.cached(t, "qcow2", data)
			b.runner.exec = disk.Exec{Limits: c.limits}
			b.runner.before = func(cmd *disk.Command) {
				if cmd.Limited {
					cmd.Name, cmd.Args = "sh", []string{"-c", c.script}
				}
			}
			err := b.CacheImage(t.Context(), disk.CacheImageInput{Image: b.image("qcow2", data)})
			require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
			_, err = b.Create(t.Context(), disk.CreateInput{Server: newServer(), Image: img, Disk: compute.Disk{ID: newDisk(), Role: compute.RootDisk}})
			require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
		})
	}
}

// H5: a storage that does not answer condemns no image: the check is tried again after
// growing waits, three times for one call, and then this host cannot take it.
func TestH5AStorageThatDoesNotAnswerCondemnsNoImage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	data := qemuImage(t, "qcow2", "3M")
	img := b.image("qcow2", data)
	b.runner.exec = disk.Exec{Limits: imagefile.Limits{Wall: time.Second}}
	b.runner.before = func(cmd *disk.Command) {
		if cmd.Limited {
			cmd.Name, cmd.Args = "sh", []string{"-c", "sleep 1000"}
		}
	}
	const slow = "it could not be read in time, since the host's storage is slow"
	var waits []time.Duration
	for range 2 {
		err := b.CacheImage(t.Context(), disk.CacheImageInput{Image: img})
		require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
		require.Contains(t, compute.Public(err), slow+", and will be tried again")
		var again interface{ RetryAfter() time.Duration }
		require.ErrorAs(t, err, &again)
		waits = append(waits, again.RetryAfter())
	}
	require.Positive(t, waits[0])
	require.Greater(t, waits[1], waits[0])
	require.Less(t, waits[0]+waits[1], 30*time.Minute-3*5*time.Minute+time.Second, "with three times the limit, half an hour")
	err := b.CacheImage(t.Context(), disk.CacheImageInput{Image: img})
	require.Equal(t, compute.NoHost, compute.KindOf(err), "%v", err)
	require.Contains(t, compute.Public(err), slow+", 3 times")

	b.runner.before = nil
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: img}), "the image is as good as before")
}

// H5: what a look at a disk costs that was just made says nothing of the image under it.
func TestH5OurOwnFilesCondemnNoImage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	img := b.cached(t, "qcow2", qemuImage(t, "qcow2", "3M"))
	b.runner.exec = disk.Exec{Limits: imagefile.Limits{CPU: time.Second}}
	b.runner.before = func(cmd *disk.Command) {
		if cmd.Limited && cmd.Image == nil {
			cmd.Name, cmd.Args = "sh", []string{"-c", "while :; do :; done"}
		}
	}
	in := disk.CreateInput{Server: newServer(), Image: img, Disk: compute.Disk{ID: newDisk(), Role: compute.RootDisk}}
	for range 2 { // the second finds the disk
		_, err := b.Create(t.Context(), in)
		require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	}
	b.runner.before = nil
	_, err := b.Create(t.Context(), in)
	require.NoError(t, err)
}

// What ends a check for another reason is tried again: the host's lack of memory is
// not the image's.
func TestAKilledCheckIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.runner.fail = func(disk.Command) error {
		return &disk.CommandError{Name: "qemu-img info", Err: os.ErrPermission}
	}
	err := b.CacheImage(t.Context(), disk.CacheImageInput{Image: b.image("qcow2", qemuImage(t, "qcow2", "3M"))})
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
}

// H3: a disk that takes its image's size is no larger than it may be, and nothing is
// made of one that would.
func TestH3ImageSizedDisksHaveALimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	small, large := b.cached(t, "qcow2", qemuImage(t, "qcow2", "8M")), b.cached(t, "qcow2", qemuImage(t, "qcow2", "2T"))
	for name, c := range map[string]struct {
		image *compute.Image
		most  int64
		kind  compute.Kind
	}{
		"as large":             {small, 8, ""},
		"larger":               {small, 7, compute.Invalid},
		"nobody says how much": {large, 0, compute.Invalid},
		"as somebody says":     {large, 2 << 20, ""},
	} {
		server := newServer()
		_, err := b.Create(t.Context(), disk.CreateInput{
			Server: server, Image: c.image, Disk: compute.Disk{ID: newDisk(), Role: compute.RescueDisk, MaxMB: c.most},
		})
		require.Equal(t, c.kind, compute.KindOf(err), "%s: %v", name, err)
		if c.kind != "" {
			require.NoFileExists(t, filepath.Join(b.InstancesDir, server.String(), "disk.rescue"), name)
		}
	}
}

// P23: what its owner is told of an image with a wrong format says that it is the image, and
// nothing of the host, whoever found it: programs name the files that they cannot read.
func TestP23AMislabelledImageIsToldWithoutPaths(t *testing.T) {
	t.Parallel()
	b := setup(t)
	status := exec.Command("false").Run()
	b.runner.fail = func(c disk.Command) error {
		why := fmt.Sprintf("qemu-img: Could not open '%s/x': Image is not in qcow2 format", b.CacheDir)
		return &disk.CommandError{Name: c.Name + " info", Err: status, Stderr: why}
	}
	for _, f := range append(hostile.Sound(),
		hostile.File{Name: "no qcow2", Format: "qcow2", Data: bytes.Repeat([]byte("no header"), 1000)},
		hostile.File{Name: "no luks", Format: "luks", Data: make([]byte, 1<<20)},
	) {
		img, use := b.hostileImage(f)
		err := b.CacheImage(t.Context(), disk.CacheImageInput{Image: img, Use: use})
		require.Contains(t, []compute.Kind{compute.Invalid, compute.Corrupt}, compute.KindOf(err), "%s: %v", f.Name, err)
		told := compute.Public(err)
		require.Contains(t, strings.ToLower(told), "image "+img.ID.String(), f.Name)
		require.NotContains(t, told, b.CacheDir, f.Name)
		require.NotContains(t, told, "qemu-img", f.Name)
	}
}
