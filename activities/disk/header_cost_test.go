package disk_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/imagefile/hostile"
	"strongroom/compute"
)

// H5: a disk whose LUKS header costs more than an image's may, as a host that was lost can send it, or a
// guest that broke into its QEMU can have written it, is not taken: whoever opens it with its key, QEMU and
// qemu-img as root, would pay.
func TestH5ADiskWithACostlyHeaderMeetsNoProgram(t *testing.T) {
	t.Parallel()
	files := hostile.Files("")
	for _, wrong := range []string{"2^32 rounds for a slot", "2^32 rounds for its digest", "2^32 stripes", "a key of 4 GiB"} {
		i := slices.IndexFunc(files, func(f hostile.File) bool { return f.Name == "LUKS in qcow2 with "+wrong })
		require.GreaterOrEqual(t, i, 0, wrong)
		data := files[i].Data[:1<<20] // the header, and some of its key material
		for name, prepare := range map[string]func(*testing.T, *testBundle) func(context.Context) error{
			"receive": func(_ *testing.T, b *testBundle) func(context.Context) error {
				b.Hosts = sender{data: data}
				d := compute.Disk{ID: newDisk(), Role: compute.EphemeralDisk, SizeMB: 1, Encrypted: true}
				return func(ctx context.Context) error {
					return b.Receive(ctx, disk.ReceiveInput{Server: newServer(), Operation: "req-1", Disk: d})
				}
			},
			"restore": func(_ *testing.T, b *testBundle) func(context.Context) error {
				img := b.image("qcow2", data)
				d := compute.Disk{
					ID: newDisk(), Role: compute.RootDisk, Encrypted: true,
					Shelved: &compute.ShelvedDisk{Image: img.ID, SizeBytes: img.SizeBytes, SHA256: img.SHA256},
				}
				return func(ctx context.Context) error {
					return b.Restore(ctx, disk.RestoreInput{Server: newServer(), Disk: d})
				}
			},
			"resize in place": func(t *testing.T, b *testBundle) func(context.Context) error {
				r := b.resized(t, true, nil)
				r.Disk.File = r.From.File
				require.NoError(t, os.WriteFile(r.path(r.From), data, 0o600))
				return func(ctx context.Context) error { return b.Resize(ctx, r.ResizeInput) }
			},
		} {
			t.Run(name+" with "+wrong, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				do := prepare(t, b)
				b.runner.fail = func(c disk.Command) error {
					t.Errorf("%s %v met the header", c.Name, c.Args)
					return errors.New("it was to meet none")
				}
				err := do(t.Context())
				require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
				require.ErrorContains(t, err, "its header was not made so")
			})
		}
	}
}
