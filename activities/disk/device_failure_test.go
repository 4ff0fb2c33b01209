package disk_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/compute"
)

// diesAtEveryStep: whatever moment a worker is killed at, its successor makes the same
// disk, and a delete leaves nothing.
func (b *testBundle) diesAtEveryStep(t *testing.T, image *compute.Image) {
	for i, step := range []string{"lvcreate", "luksFormat", "convert", "close", "lvrename"} {
		d := b.device(t, compute.FormatLUKSv2, image)
		require.True(t, b.dieAfter(step, func() error {
			_, err := d.Create(t.Context(), d.CreateInput)
			return err
		}), step)
		require.NotEmpty(t, volumes(t), "something was there after %s", step)
		if i%2 == 0 {
			d.gone(t)
			continue
		}
		got, err := d.Create(t.Context(), d.CreateInput)
		require.NoError(t, err, "after %s", step)
		require.Equal(t, deviceOptions[compute.FormatLUKSv2], got.EncryptionOptions)
		require.Empty(t, opened(t))
		d.guest(t, readImage)
		d.gone(t)
	}
}

// halfOpened: a cryptsetup that is killed can leave a mapping without a table, and one without a device file. The
// disk is made all the same, and what is left of one goes with it.
func (b *testBundle) halfOpened(t *testing.T, image *compute.Image) {
	leftovers := map[string]func(name string){
		"no table": func(name string) { run(t, "dmsetup", "create", name, "--notable") },
		"no file": func(name string) {
			run(t, "dmsetup", "create", name, "--table", "0 8 error")
			require.NoError(t, os.RemoveAll("/dev/mapper/"+name))
		},
	}
	for what, leave := range leftovers {
		for _, format := range deviceFormats {
			d := b.device(t, format, image)
			require.True(t, b.dieAfter("lvcreate", func() error {
				_, err := d.Create(t.Context(), d.CreateInput)
				return err
			}))
			left := volumes(t)
			require.Len(t, left, 1)
			leave(left[0] + "-dmcrypt")
			_, err := d.Create(t.Context(), d.CreateInput)
			require.NoError(t, err, "%s, %s", what, format)
			require.Empty(t, mappings(t))
			d.guest(t, readImage)
			leave(volumes(t)[0] + "-dmcrypt")
			d.gone(t)
			require.Empty(t, mappings(t), "%s, %s", what, format)
		}
	}
}

// mappings lists what the device mapper has, but for logical volumes.
func mappings(t *testing.T) (out []string) {
	t.Helper()
	for line := range strings.Lines(run(t, "dmsetup", "ls")) {
		if name, _, _ := strings.Cut(line, "\t"); strings.HasSuffix(name, "-dmcrypt") {
			out = append(out, name)
		}
	}
	return out
}

// dieAfter lets no command run after the first of that name, as if the worker were
// dead. It reports whether the work came to nothing.
func (b *testBundle) dieAfter(step string, do func() error) (died bool) {
	dead, errDead := false, errors.New("killed")
	b.runner.fail = func(c disk.Command) error {
		if dead {
			return errDead
		}
		dead = c.Args[0] == step
		return nil
	}
	defer func() { b.runner.fail = nil }()
	err := do()
	return err != nil || dead && strings.HasSuffix(step, "rename") // the last
}

func (b *testBundle) refuses(t *testing.T) {
	t.Run("wrong key", func(t *testing.T) {
		for _, format := range deviceFormats {
			d := b.device(t, format, nil)
			_, err := d.Create(t.Context(), d.CreateInput)
			require.NoError(t, err)
			d.guest(t, writeImage)
			_, other := b.secret(t)
			b.keys[*d.Disk.Secret] = other
			_, err = d.OpenDevices(t.Context(), compute.Credential{}, d.server())
			if format == compute.FormatPlain {
				require.NoError(t, err, "plain cannot tell")
				require.False(t, bytes.Equal(imageData(), readAt(t, d.open(t), 0, 3<<20)), "but shows noise")
				require.NoError(t, d.CloseDevices(t.Context(), d.Server))
			} else {
				require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
				require.Empty(t, opened(t))
				_, err = d.Create(t.Context(), d.CreateInput)
				require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
				b.keys[*d.Disk.Secret] = d.key
				d.open(t)
				b.keys[*d.Disk.Secret] = other
				_, err = d.OpenDevices(t.Context(), compute.Credential{}, d.server())
				require.Equal(t, compute.Corrupt, compute.KindOf(err), "also when it is open: %v", err)
			}
			b.keys[*d.Disk.Secret] = d.key
			d.guest(t, readImage)
			d.gone(t)
		}
	})
	t.Run("no key", func(t *testing.T) {
		d := b.device(t, compute.FormatPlain, nil)
		_, err := d.Create(t.Context(), d.CreateInput)
		require.NoError(t, err)
		delete(b.keys, *d.Disk.Secret)
		_, err = d.OpenDevices(t.Context(), compute.Credential{}, d.server())
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
		d.gone(t)
	})
	t.Run("no disk", func(t *testing.T) {
		d := b.device(t, compute.FormatLUKSv2, nil)
		_, err := d.OpenDevices(t.Context(), compute.Credential{}, d.server())
		require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
		require.NoError(t, d.CloseDevices(t.Context(), d.Server))
		d.gone(t)
	})
	t.Run("another size", func(t *testing.T) {
		d := b.device(t, compute.FormatLUKSv2, nil)
		_, err := d.Create(t.Context(), d.CreateInput)
		require.NoError(t, err)
		d.Disk.SizeMB *= 2
		_, err = d.Create(t.Context(), d.CreateInput)
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
		d.gone(t)
	})
	t.Run("no room", func(t *testing.T) {
		d := b.device(t, compute.FormatPlain, nil)
		d.Disk.SizeMB = 10 << 10
		_, err := d.Create(t.Context(), d.CreateInput)
		require.Equal(t, compute.NoHost, compute.KindOf(err), "%v", err)
		d.gone(t)
	})
	t.Run("open as something else", func(t *testing.T) {
		d := b.device(t, compute.FormatPlain, nil)
		_, err := d.Create(t.Context(), d.CreateInput)
		require.NoError(t, err)
		runWith(t, d.key, "cryptsetup", "open", "--type", "plain", "--cipher", "aes-xts-plain64", "--key-size", "256", "--hash", "sha256",
			"--key-file", "-", "/dev/"+volumeGroup+"/"+d.volume(), d.volume()+"-dmcrypt")
		_, err = d.OpenDevices(t.Context(), compute.Credential{}, d.server())
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
		d.gone(t)
	})
	t.Run("in use", func(t *testing.T) {
		d := b.device(t, compute.FormatLUKSv2, nil)
		_, err := d.Create(t.Context(), d.CreateInput)
		require.NoError(t, err)
		held, err := os.Open(d.open(t))
		require.NoError(t, err)
		servers, err := d.OpenServers(t.Context())
		require.NoError(t, err)
		require.Equal(t, []compute.ServerID{d.Server}, servers)
		in := disk.ExportInput{Server: d.Server, Operation: compute.NewOperationID(), Disk: d.Disk,
			Target: compute.ExportTarget{Format: compute.ImageQcow2, Key: compute.KeyNone}}
		_, err = d.Export(t.Context(), in)
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
		require.NoError(t, d.Remove(t.Context(), ofFile(d.Server, compute.ExportFolder(in.Operation))))
		err = d.CloseDevices(t.Context(), d.Server)
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
		require.NoError(t, held.Close())
		d.gone(t)
	})
	t.Run("host restarted", func(t *testing.T) {
		d := b.device(t, compute.FormatLUKSv2, nil)
		_, err := d.Create(t.Context(), d.CreateInput)
		require.NoError(t, err)
		d.guest(t, writeImage)
		run(t, "lvm", "vgchange", "--quiet", "--activate", "n", volumeGroup)
		d.guest(t, readImage)
		d.gone(t)
	})
	t.Run("cancelled", func(t *testing.T) {
		d := b.device(t, compute.FormatLUKSv2, nil)
		ctx, cancel := context.WithCancel(t.Context())
		b.runner.fail = func(c disk.Command) error {
			if c.Args[0] == "luksFormat" {
				cancel()
			}
			return nil
		}
		_, err := d.Create(ctx, d.CreateInput)
		b.runner.fail = nil
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, volumes(t), "nothing half made, where there was time")
		d.gone(t)
	})
	t.Run("guest with a group of the host's name", func(t *testing.T) {
		d := b.device(t, compute.FormatLUKSv2, nil)
		_, err := d.Create(t.Context(), d.CreateInput)
		require.NoError(t, err)
		guest := []string{"--quiet", "--config", `devices { dir = "/tmp/guest" filter = [ "a|-dmcrypt$|", "r|.*|" ] }`}
		run(t, "lvm", append(append([]string{"vgcreate"}, guest...), volumeGroup, d.open(t))...)
		_, err = disk.Exec{}.Run(t.Context(), disk.Command{Name: "lvm", Args: []string{"lvs", volumeGroup}})
		require.Error(t, err, "two groups of one name, for who looks into it")
		servers, err := d.OpenServers(t.Context())
		require.NoError(t, err)
		require.Equal(t, []compute.ServerID{d.Server}, servers)
		d.gone(t)
	})
	t.Run("no such group", func(t *testing.T) {
		defer func() { b.VolumeGroup = volumeGroup }()
		b.VolumeGroup = "elsewhere"
		formats, err := b.DeviceFormats(t.Context())
		require.NoError(t, err)
		require.Empty(t, formats)
		d := b.device(t, compute.FormatPlain, nil)
		_, err = d.Create(t.Context(), d.CreateInput)
		require.Equal(t, compute.NoHost, compute.KindOf(err), "%v", err)
		b.VolumeGroup = ""
		_, err = d.Create(t.Context(), d.CreateInput)
		require.Equal(t, compute.Invalid, compute.KindOf(err), "%v", err)
	})
}
