package disk_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/imagefile/hostile"
	"strongroom/compute"
)

// sender is another host, which sends a file of one segment.
type sender struct {
	disk.Transfers

	data []byte
}

func (s sender) Layout(context.Context, compute.Agent, compute.Transfer) (disk.Layout, error) {
	return disk.Layout{Bytes: int64(len(s.data)), Version: "1", Data: []byte{1}}, nil
}

func (s sender) Segments(context.Context, compute.Agent, compute.Transfer, string, int64) (io.ReadWriteCloser, error) {
	one := sha256.Sum256(s.data)
	all := sha256.Sum256(one[:])
	return unanswered{io.NopCloser(bytes.NewReader(slices.Concat(s.data, one[:], all[:]))), io.Discard}, nil
}

// unanswered is a stream whose sender waits for no answers.
type unanswered struct {
	io.ReadCloser
	io.Writer
}

// hostileDisk gives a qcow2 file by what is wrong with it.
func hostileDisk(t *testing.T, outside, wrong string) []byte {
	t.Helper()
	files := hostile.Files(outside)
	i := slices.IndexFunc(files, func(f hostile.File) bool { return f.Name == "qcow2 with "+wrong })
	require.GreaterOrEqual(t, i, 0, wrong)
	return files[i].Data
}

// M4: a header that names a file for its data, as another host, the image store or a guest that broke
// into its QEMU can have written it, meets no program: as root that would read the file.
func TestM4HeadersThatNameADataFileMeetNoProgram(t *testing.T) {
	t.Parallel()
	outside, opened := watched(t)
	data := hostileDisk(t, outside, "a data file")
	swap := func(t *testing.T, path string) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
	for name, prepare := range map[string]func(*testing.T, *testBundle) func(context.Context) error{
		"receive": func(_ *testing.T, b *testBundle) func(context.Context) error {
			b.Hosts = sender{data: data}
			d := compute.Disk{ID: newDisk(), Role: compute.EphemeralDisk, SizeMB: 1}
			return func(ctx context.Context) error {
				return b.Receive(ctx, disk.ReceiveInput{Server: newServer(), Operation: "req-1", Disk: d})
			}
		},
		"restore": func(_ *testing.T, b *testBundle) func(context.Context) error {
			img := b.image("qcow2", data)
			d := compute.Disk{ID: newDisk(), Role: compute.RootDisk, Shelved: &compute.ShelvedDisk{Image: img.ID, SizeBytes: img.SizeBytes, SHA256: img.SHA256}}
			return func(ctx context.Context) error {
				return b.Restore(ctx, disk.RestoreInput{Server: newServer(), Disk: d})
			}
		},
		"resize": func(t *testing.T, b *testBundle) func(context.Context) error {
			r := b.resized(t, false, nil)
			swap(t, r.path(r.From))
			return func(ctx context.Context) error { return b.Resize(ctx, r.ResizeInput) }
		},
		"resize in place": func(t *testing.T, b *testBundle) func(context.Context) error {
			r := b.resized(t, false, nil)
			r.Disk.File = r.From.File
			swap(t, r.path(r.From))
			return func(ctx context.Context) error { return b.Resize(ctx, r.ResizeInput) }
		},
		"export": func(t *testing.T, b *testBundle) func(context.Context) error {
			e := b.exported(t, nil, false)
			swap(t, filepath.Join(b.InstancesDir, e.Server.String(), e.Disk.Name()))
			return func(ctx context.Context) error { _, err := b.Export(ctx, e.ExportInput); return err }
		},
		"a copy that QEMU made": func(t *testing.T, b *testBundle) func(context.Context) error {
			e := b.exported(t, nil, true)
			e.Target.Secret = e.Disk.Secret
			done, err := b.Export(t.Context(), e.ExportInput)
			require.NoError(t, err)
			swap(t, filepath.Join(b.InstancesDir, done.File))
			key, err := b.keys.Passphrase(t.Context(), e.Credential, *e.Disk.Secret)
			require.NoError(t, err)
			return func(ctx context.Context) error {
				plan := compute.ExportPlan{Server: e.Server, Operation: e.Operation, Disk: e.Disk, Target: e.Target}
				_, _, err := b.FindExport(ctx, plan, key)
				return err
			}
		},
		"a new key": func(t *testing.T, b *testBundle) func(context.Context) error {
			r := b.resized(t, true, nil)
			file, err := os.OpenFile(r.path(r.From), os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = file.WriteAt(data[72:80], 72) // its flags alone: the LUKS header stays
			require.NoError(t, errors.Join(err, file.Close()))
			add, _ := b.secret(t)
			return func(ctx context.Context) error {
				_, err := b.AddKey(ctx, disk.AddKeyInput{Server: r.Server, Disk: r.From, Secret: *add, Before: []int{0}})
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			do := prepare(t, b)
			b.runner.fail = func(c disk.Command) error {
				t.Errorf("%s %v met the header", c.Name, c.Args)
				return nil
			}
			err := do(t.Context())
			require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "it names another file in its header")
			require.NotContains(t, err.Error(), outside)
			require.False(t, opened())
		})
	}
}

// M4: a disk that leans on anything but an image of the cache is not resized, and nothing opens what
// it leans on.
func TestM4ResizeTakesNoDiskThatLeansOnAnotherFile(t *testing.T) {
	t.Parallel()
	outside, opened := watched(t)
	b := setup(t)
	r := b.resized(t, false, nil)
	for _, wrong := range []string{"a backing file", "a backing file in JSON", "a backing file in the network", "itself as its backing file"} {
		require.NoError(t, os.WriteFile(r.path(r.From), hostileDisk(t, outside, wrong), 0o600))
		err := b.Resize(t.Context(), r.ResizeInput)
		require.Equal(t, compute.Corrupt, compute.KindOf(err), "%s: %v", wrong, err)
		require.ErrorContains(t, err, "it is not what it was made as", wrong)
		r.requireFiles(t, r.From)
	}
	require.False(t, opened())
}
