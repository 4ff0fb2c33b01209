package disk_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/secret"
	"strongroom/compute"
)

var encryptionOptions = map[string]string{
	"format": "luks", "cipher-alg": "aes-256", "cipher-mode": "xts", "ivgen-alg": "plain64", "hash-alg": "sha256", "iterations": "10000",
}

func TestCreateMakesEveryKindOfDisk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		disk      compute.Disk
		image     string // format of the source
		encrypted bool
		file      string
		mib       int64
	}{
		"plain root":          {compute.Disk{Role: compute.RootDisk, SizeMB: 8}, "qcow2", false, "disk", 8},
		"encrypted root":      {compute.Disk{Role: compute.RootDisk, SizeMB: 8}, "qcow2", true, "disk", 8},
		"root of a raw image": {compute.Disk{Role: compute.RootDisk, SizeMB: 8}, "raw", true, "disk", 8},
		"image's own size":    {compute.Disk{Role: compute.RootDisk}, "qcow2", false, "disk", 5},
		"ephemeral":           {compute.Disk{Role: compute.EphemeralDisk, Index: 1, SizeMB: 1024}, "", true, "disk.eph1", 1024},
		"swap":                {compute.Disk{Role: compute.SwapDisk, SizeMB: 64}, "", true, "disk.swap", 64},
		"plain swap":          {compute.Disk{Role: compute.SwapDisk, SizeMB: 64}, "", false, "disk.swap", 64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			in := disk.CreateInput{Server: newServer(), Disk: c.disk}
			in.Disk.ID = newDisk()
			if c.image != "" {
				in.Image = b.cached(t, c.image, qemuImage(t, c.image, "5M"))
			}
			var passphrase string
			if c.encrypted {
				in.Disk.Encrypted, in.Disk.Format = true, compute.FormatLUKS
				in.Disk.Secret, passphrase = b.secret(t)
			}
			// Twice at once, and once more: one disk.
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() {
					got, err := b.Create(t.Context(), in)
					require.NoError(t, err)
					if c.encrypted {
						require.Equal(t, encryptionOptions, got.EncryptionOptions)
					} else {
						require.Empty(t, got.EncryptionOptions)
					}
					require.False(t, got.Whole, "an overlay")
				})
			}
			both.Wait()
			_, err := b.Create(t.Context(), in)
			require.NoError(t, err)

			folder := in.Server.String()
			require.Equal(t, []string{folder, folder + "/" + c.file}, b.files(t))
			path := filepath.Join(b.InstancesDir, folder, c.file)
			i := info(t, path)
			require.Equal(t, "qcow2", i.Format)
			require.Equal(t, c.mib<<20, i.VirtualSize)
			require.Equal(t, c.encrypted, i.Encrypted)
			require.Equal(t, c.image, i.BackingFormat)
			mode, err := os.Stat(path)
			require.NoError(t, err)
			require.EqualValues(t, 0o600, mode.Mode().Perm())
			if c.encrypted {
				require.NoError(t, open(t, path, passphrase))
				require.Error(t, open(t, path, passphrase[1:]))
				require.NotContains(t, strings.Join(b.runner.args, " "), passphrase, "INVARIANT: a passphrase is an argument")
			}
		})
	}
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	image := b.cached(t, "qcow2", qemuImage(t, "qcow2", "5M"))
	absent := b.image("raw", []byte("neither in the cache nor in the store"))
	delete(b.images.data, absent.ID)
	id, _ := b.secret(t)
	stranger := compute.SecretID{UUID: newDisk().UUID}
	root := func(mib int64) compute.Disk { return compute.Disk{Role: compute.RootDisk, SizeMB: mib} }
	luks := func(s *compute.SecretID, f compute.DiskFormat) compute.Disk {
		return compute.Disk{Role: compute.SwapDisk, SizeMB: 1, Encrypted: true, Secret: s, Format: f}
	}
	for name, c := range map[string]struct {
		kind  compute.Kind
		disk  compute.Disk
		image *compute.Image
	}{
		"smaller than its image": {compute.Invalid, root(4), image},
		"no image":               {compute.Invalid, root(4), nil},
		"no such image":          {compute.NotFound, root(4), &absent},
		"image for swap":         {compute.Invalid, compute.Disk{Role: compute.SwapDisk, SizeMB: 1}, image},
		"no size":                {compute.Invalid, compute.Disk{Role: compute.SwapDisk}, nil},
		"negative size":          {compute.Invalid, compute.Disk{Role: compute.SwapDisk, SizeMB: -1}, nil},
		"no secret":              {compute.Invalid, luks(nil, compute.FormatLUKS), nil},
		"format":                 {compute.Invalid, luks(id, compute.FormatLUKSv2), nil},
		"no format":              {compute.Invalid, luks(id, compute.FormatNone), nil},
		"another's secret":       {compute.Forbidden, luks(&stranger, compute.FormatLUKS), nil},
	} {
		c.disk.ID = newDisk()
		_, err := b.Create(t.Context(), disk.CreateInput{Server: newServer(), Disk: c.disk, Image: c.image})
		require.Equal(t, c.kind, compute.KindOf(err), "%s: %v", name, err)
		require.Empty(t, b.files(t), name)
	}
	_, err := b.Create(t.Context(), disk.CreateInput{Disk: luks(id, compute.FormatLUKS)})
	require.True(t, compute.Is(err, compute.Invalid), "a disk of no server")
}

func TestCreateKeepsADiskThatIsAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	image := b.cached(t, "qcow2", qemuImage(t, "qcow2", "5M"))
	made := compute.Disk{ID: newDisk(), Role: compute.RootDisk, SizeMB: 8, Encrypted: true, Format: compute.FormatLUKS}
	made.Secret, _ = b.secret(t)
	in := disk.CreateInput{Server: newServer(), Disk: made, Image: image}
	_, err := b.Create(t.Context(), in)
	require.NoError(t, err)
	path := filepath.Join(b.InstancesDir, in.Server.String(), "disk")
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	for name, change := range map[string]func(*disk.CreateInput){
		"another secret": func(in *disk.CreateInput) { in.Disk.Secret, _ = b.secret(t) },
		"another size":   func(in *disk.CreateInput) { in.Disk.SizeMB++ },
		"not encrypted":  func(in *disk.CreateInput) { in.Disk.Encrypted = false },
		"another image":  func(in *disk.CreateInput) { in.Image = b.cached(t, "qcow2", qemuImage(t, "qcow2", "6M")) },
	} {
		other := in
		change(&other)
		_, err := b.Create(t.Context(), other)
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%s: %v", name, err)
	}
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoError(t, os.WriteFile(path, []byte("no disk at all"), 0o600))
	_, err = b.Create(t.Context(), in)
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
}

func TestCreateTriesAgainWhenTheClockStoodStill(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, os.Remove(filepath.Join(b.CacheDir, disk.BlankTemplate)))
	var failures atomic.Int32
	b.runner.fail = func(c disk.Command) error {
		if c.Args[0] == "create" && failures.Add(1) <= 3 {
			return &disk.CommandError{Name: "qemu-img create", Err: errors.New("exit status 1"),
				Stderr: "qemu-img: disk: Unable to get accurate CPU usage"}
		}
		return nil
	}
	id, _ := b.secret(t)
	_, err := b.Create(t.Context(), disk.CreateInput{Server: newServer(), Disk: compute.Disk{
		ID: newDisk(), Role: compute.SwapDisk, SizeMB: 1, Encrypted: true, Secret: id, Format: compute.FormatLUKS}})
	require.NoError(t, err)
	require.GreaterOrEqual(t, failures.Load(), int32(4), "the clock may stand still by itself, too")
}

func TestCreateLeavesNothingHalfMade(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, os.Remove(filepath.Join(b.CacheDir, disk.BlankTemplate)))
	id, _ := b.secret(t)
	in := disk.CreateInput{Server: newServer(), Disk: compute.Disk{
		ID: newDisk(), Role: compute.SwapDisk, SizeMB: 1, Encrypted: true, Secret: id, Format: compute.FormatLUKS}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.runner.fail = func(c disk.Command) error {
		if c.Args[0] == "create" {
			time.AfterFunc(200*time.Millisecond, cancel) // in the middle of the benchmark
		}
		return nil
	}
	_, err := b.Create(ctx, in)
	b.runner.fail = nil
	require.ErrorIs(t, err, context.Canceled)
	folder := in.Server.String()
	require.Equal(t, []string{folder}, b.files(t))

	// What a killed worker leaves is counted as the disk, and replaced.
	for _, f := range []string{".disk.swap.new", ".disk.swap.lock"} {
		require.NoError(t, os.WriteFile(filepath.Join(b.InstancesDir, folder, f), []byte("half"), 0o600))
	}
	left := b.seen(t, compute.ThingDiskFile)
	require.Equal(t, []string{folder + "/disk.swap"}, left)
	_, err = b.Create(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, []string{folder, folder + "/disk.swap"}, b.files(t))
}

func TestCreateSaysWhenTheHostIsFull(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.runner.fail = func(c disk.Command) error {
		return &disk.CommandError{Name: "qemu-img create", Err: errors.New("exit status 1"), Stderr: "Could not write: No space left on device"}
	}
	in := disk.CreateInput{Server: newServer(), Disk: compute.Disk{ID: newDisk(), Role: compute.SwapDisk, SizeMB: 1}}
	_, err := b.Create(t.Context(), in)
	require.Equal(t, compute.NoHost, compute.KindOf(err), "%v", err)
}

type qemuInfo struct {
	Format        string `json:"format"`
	VirtualSize   int64  `json:"virtual-size"`
	Encrypted     bool   `json:"encrypted"`
	BackingFormat string `json:"backing-filename-format"`
}

func info(t *testing.T, path string) (i qemuInfo) {
	t.Helper()
	out, err := disk.Exec{}.Run(t.Context(), disk.Command{Name: "qemu-img", Args: []string{"info", "--output=json", path}})
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &i))
	return i
}

// open reads the disk's first sector through its encryption.
func open(t *testing.T, path, passphrase string) error {
	t.Helper()
	_, err := disk.Exec{}.Run(t.Context(), disk.Command{
		Name: "qemu-io",
		Args: []string{"-r", "--object", "secret,id=key,file=/dev/fd/3", "--image-opts",
			"driver=qcow2,encrypt.key-secret=key,file.filename=" + path, "-c", "read 0 512"},
		Passphrases: []*secret.Passphrase{secret.New([]byte(passphrase))},
	})
	return err
}
