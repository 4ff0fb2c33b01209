package disk_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

// cluster is a real Ceph with a pool, and a user who may use that pool alone.
type cluster struct{ cloudtest.Pool }

func startCluster(t *testing.T) cluster {
	t.Helper()
	return cluster{cloudtest.StartPool(t)}
}

func (c cluster) pool() disk.Pool {
	return disk.Pool{Name: c.Name, User: c.User, ConfFile: c.Conf, Keyring: c.Keyring}
}

// images lists all images of the pool.
func (c cluster) images(t *testing.T) (names []string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(c.rbd(t, "ls", "--format", "json", c.Name)), &names))
	return names
}

func (c cluster) rbd(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, "rbd", append(args, "--conf", c.AdminConf)...)
}

// pooled is a server with one disk in the pool.
type pooled struct {
	*device
	cluster
}

func (b *testBundle) pooled(t *testing.T, c cluster, image *compute.Image, encrypted bool) *pooled {
	t.Helper()
	p := &pooled{b.device(t, compute.FormatLUKS, image), c}
	if !encrypted {
		p.Disk.Encrypted, p.Disk.Format, p.Disk.Secret, p.key = false, "", nil, ""
	}
	return p
}

func (p *pooled) name() string { return p.Server.String() + "_" + p.Disk.Name() }

func (p *pooled) plan() compute.Server {
	return compute.Server{ID: p.Server, Disks: []compute.Disk{p.Disk}}
}

// qemuIO has QEMU read or write the disk, with what opens the server's disk.
func (p *pooled) qemuIO(t *testing.T, key string, commands ...string) (string, error) {
	t.Helper()
	cluster, err := p.ClusterKey()
	require.NoError(t, err)
	at := "driver=raw,"
	c := disk.Command{Name: "qemu-io", Args: []string{"--object", "secret,id=c,format=base64,file=/dev/fd/3"}, Passphrases: []*secret.Passphrase{cluster}}
	if p.Disk.Encrypted {
		at = "driver=luks,key-secret=key,"
		c.Args = append(c.Args, "--object", "secret,id=key,file=/dev/fd/4")
		c.Passphrases = append(c.Passphrases, secret.New([]byte(key)))
	}
	c.Args = append(c.Args, "--image-opts", at+"file.driver=rbd,file.key-secret=c,file.user="+p.User+",file.conf="+p.Conf+",file.pool="+p.Name+",file.image="+p.name())
	for _, do := range commands {
		c.Args = append(c.Args, "-c", do)
	}
	out, err := disk.Exec{}.Run(t.Context(), c)
	return string(out), err
}

// Disks of a host with a pool are images there, which have no backing file and hold what
// they must (EE-04, EE-08, EE-09).
func TestDisksInAPool(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	b := setup(t)
	b.Activities.Pool = c.pool()
	raw := b.cached(t, "raw", imageData())
	qcow2 := b.cached(t, "qcow2", asQcow2(t, imageData()))

	t.Run("luks root", func(t *testing.T) { b.pooled(t, c, qcow2, true).livesThrough(t) })
	t.Run("plain root", func(t *testing.T) { b.pooled(t, c, raw, false).livesThrough(t) })
	t.Run("luks empty", func(t *testing.T) { b.pooled(t, c, nil, true).livesThrough(t) })
	t.Run("plain empty", func(t *testing.T) { b.pooled(t, c, nil, false).livesThrough(t) })
	t.Run("image", func(t *testing.T) { b.pooled(t, c, raw, true).becomesAnImage(t) })
	t.Run("killed", func(t *testing.T) { b.pooled(t, c, raw, true).diesAtEveryCommand(t) })
	t.Run("another", func(t *testing.T) { b.pooled(t, c, raw, true).isKept(t) })
	t.Run("not this host's", func(t *testing.T) { b.pooled(t, c, nil, true).isAnothers(t) })
	t.Run("room", func(t *testing.T) {
		total, free, ok, err := b.PoolRoom(t.Context())
		require.NoError(t, err)
		require.True(t, ok)
		require.Greater(t, total, free)
		require.Greater(t, free, int64(1<<30))
	})
	t.Run("no cluster", func(t *testing.T) { b.pooled(t, c, nil, true).meetsSilence(t) })
	require.NotContains(t, strings.Join(b.runner.args, " "), keyIn(t, c.Keyring))
}

func keyIn(t *testing.T, keyring string) string {
	t.Helper()
	text, err := os.ReadFile(keyring)
	require.NoError(t, err)
	_, key, found := strings.Cut(string(text), "key = ")
	require.True(t, found)
	return strings.Fields(key)[0]
}

func (p *pooled) livesThrough(t *testing.T) {
	var both sync.WaitGroup // an attempt that timed out and its successor
	for range 2 {
		both.Go(func() {
			got, err := p.Create(t.Context(), p.CreateInput)
			require.NoError(t, err)
			if p.Disk.Encrypted {
				require.Equal(t, encryptionOptions, got.EncryptionOptions)
			} else {
				require.Empty(t, got.EncryptionOptions)
			}
			require.Equal(t, p.Image != nil, got.Whole)
		})
	}
	both.Wait()
	require.Equal(t, []string{p.name()}, p.images(t))
	folder := p.Server.String()
	require.Equal(t, []string{folder, folder + "/" + p.Disk.Name()}, p.files(t))
	got := p.seen(t, compute.ThingDiskFile)
	require.Equal(t, []string{folder + "/" + p.Disk.Name()}, got)
	at, err := p.PoolImages(t.Context(), p.plan())
	require.NoError(t, err)
	require.Equal(t, map[compute.DiskID]string{p.Disk.ID: "vms/" + p.name()}, at)

	if p.Image != nil {
		out, err := p.qemuIO(t, p.key, "read -P 0x11 0 1M", "read -P 0 2M 1M")
		require.NoError(t, err, out)
		require.NotContains(t, out, "verification failed")
	}
	out, err := p.qemuIO(t, p.key, "write -P 0x33 5M 1M", "read -P 0x33 5M 1M")
	require.NoError(t, err, out)
	require.NotContains(t, out, "verification failed")
	exported := filepath.Join(t.TempDir(), "image")
	p.rbd(t, "export", "--no-progress", "vms/"+p.name(), exported)
	bytes, err := os.ReadFile(exported)
	require.NoError(t, err)
	require.Equal(t, p.Disk.Encrypted, !strings.Contains(string(bytes), strings.Repeat("3", 4096)), "0x33 is a 3")
	if p.Disk.Encrypted {
		_, err = p.qemuIO(t, p.key[1:], "read 0 512")
		require.ErrorContains(t, err, "Invalid password")
		require.NotContains(t, strings.Join(p.runner.args, " "), p.key)
		_, err = p.KeySlots(t.Context(), disk.KeySlotsInput{Server: p.Server, Disks: []compute.Disk{p.Disk}})
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	}
	p.gone(t)
	p.gone(t)
}

func (p *pooled) gone(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Remove(t.Context(), ofFile(p.Server, p.Disk.Name())))
	require.Empty(t, p.images(t))
	require.Empty(t, p.files(t))
}

// becomesAnImage copies a stopped server's disk with each choice of a key. On Ceph 17
// and before one of them is refused, before anything is made (EE-17 … EE-19, EE-21).
func (p *pooled) becomesAnImage(t *testing.T) {
	_, err := p.Create(t.Context(), p.CreateInput)
	require.NoError(t, err)
	in := disk.ExportInput{Server: p.Server, Operation: compute.NewOperationID(), Disk: p.Disk, Image: p.Image}
	for _, choice := range []compute.KeyChoice{compute.KeySame, compute.KeyExisting, compute.KeyNone} {
		in.Target = compute.ExportTarget{Format: compute.ImageQcow2, Key: choice}
		key := ""
		if choice != compute.KeyNone {
			in.Target.Secret, key = p.secret(t)
		}
		if choice == compute.KeySame {
			p.keys[*in.Target.Secret], key = p.key, p.key
		}
		done, err := p.Export(t.Context(), in)
		require.NoError(t, err, choice)
		require.EqualValues(t, diskMiB<<20, done.VirtualBytes)
		require.Equal(t, key != "", done.EncryptionOptions != nil)
		out, err := p.reads(t, done, key)
		require.NoError(t, err, string(out))
		require.NoError(t, p.Remove(t.Context(), ofFile(in.Server, compute.ExportFolder(in.Operation))))
	}
	files := p.files(t)
	in.Target = compute.ExportTarget{Format: compute.ImageQcow2, Key: compute.KeyNew}
	var key string
	in.Target.Secret, key = p.secret(t)
	_, err = p.Export(t.Context(), in)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	for _, said := range []string{"encryption.key 'new'", "rbd", "Ceph 16", "'same'", "Ceph 18"} {
		require.ErrorContains(t, err, said)
	}
	require.Equal(t, files, p.files(t))
	// Debian's Ceph is older: its monitors alone are said to be of another version.
	answer := `{"mon":{"ceph version 18.2.7 (6b0e988052ec84cf2d4a54ff9bbbc5e720b621ad) reef (stable)":3}}`
	p.runner.before = func(c *disk.Command) {
		if c.Name == "ceph" {
			*c = disk.Command{Name: "echo", Args: []string{answer}}
		}
	}
	defer func() { p.runner.before = nil }()
	done, err := p.Export(t.Context(), in)
	require.NoError(t, err, "newer ones can")
	out, err := p.reads(t, done, p.key)
	require.Error(t, err, "the disk's own key opens it: %s", out)
	out, err = p.reads(t, done, key)
	require.NoError(t, err, string(out))
	require.NoError(t, p.Remove(t.Context(), ofFile(in.Server, compute.ExportFolder(in.Operation))))
	p.runsMeanwhile(t, in)
	p.gone(t)
}

// reads copies an image with a key, "" for none, and requires that it has the disk's data.
func (p *pooled) reads(t *testing.T, done compute.Export, key string) (said []byte, err error) {
	t.Helper()
	options := "driver=qcow2,file.filename=" + filepath.Join(p.InstancesDir, done.File)
	if key != "" {
		options += ",encrypt.key-secret=key"
	}
	copied := filepath.Join(t.TempDir(), "copied")
	said, err = qemu(t, "qemu-img", key, "", "convert", "--image-opts", options, "-O", "raw", copied)
	if err == nil {
		readImage(t, copied)
	}
	return said, err
}

// runsMeanwhile: what a machine has open is neither copied at rest nor deleted.
func (p *pooled) runsMeanwhile(t *testing.T, in disk.ExportInput) {
	machine := exec.Command("qemu-io", "-f", "raw", "rbd:vms/"+p.name()+":id=admin:conf="+p.AdminConf)
	machine.Stdout, machine.Stderr = t.Output(), t.Output()
	input, err := machine.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, machine.Start())
	defer func() {
		require.NoError(t, input.Close()) // it ends in good order
		require.NoError(t, machine.Wait())
	}()
	_, err = input.Write([]byte("write 6M 4k\n"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return strings.Contains(p.rbd(t, "status", "vms/"+p.name()), "watcher=")
	}, time.Minute, 100*time.Millisecond)
	_, err = p.Export(t.Context(), in)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	err = p.Remove(t.Context(), ofFile(p.Server, p.Disk.Name()))
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.Equal(t, []string{p.name()}, p.images(t))
}

// diesAtEveryCommand: whatever command a worker is killed after, its successor makes
// the same disk, and a delete leaves nothing.
func (p *pooled) diesAtEveryCommand(t *testing.T) {
	for i, step := range []string{"info", "import", "resize", "convert", "rename"} {
		p.Server = newServer()
		require.True(t, p.dieAfter(step, func() error {
			_, err := p.Create(t.Context(), p.CreateInput)
			return err
		}), step)
		if step != "info" {
			require.Len(t, p.images(t), 1, "something was there after %s", step)
		}
		if i%2 == 1 {
			p.gone(t)
			continue
		}
		got, err := p.Create(t.Context(), p.CreateInput)
		require.NoError(t, err, "after %s", step)
		require.Equal(t, encryptionOptions, got.EncryptionOptions)
		require.Equal(t, []string{p.name()}, p.images(t))
		out, err := p.qemuIO(t, p.key, "read -P 0x11 0 1M")
		require.NoError(t, err)
		require.NotContains(t, out, "verification failed")
		p.gone(t)
	}
	p.Server = newServer()
	p.runner.fail = func(c disk.Command) error {
		if c.Args[0] == "convert" {
			return &disk.CommandError{Name: "qemu-img convert", Stderr: "error while writing", Err: os.ErrDeadlineExceeded}
		}
		return nil
	}
	defer func() { p.runner.fail = nil }()
	_, err := p.Create(t.Context(), p.CreateInput)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.Empty(t, p.images(t), "what failed leaves nothing")
	require.Equal(t, []string{p.Server.String()}, p.files(t))
	p.gone(t)
}

// isKept: an image that is there is what is asked for, or stays as it is.
func (p *pooled) isKept(t *testing.T) {
	made := p.CreateInput
	_, err := p.Create(t.Context(), made)
	require.NoError(t, err)
	for name, change := range map[string]func(*disk.CreateInput){
		"another secret": func(in *disk.CreateInput) { in.Disk.Secret, _ = p.secret(t) },
		"another size":   func(in *disk.CreateInput) { in.Disk.SizeMB++ },
		"not encrypted":  func(in *disk.CreateInput) { in.Disk.Encrypted = false },
	} {
		other := made
		change(&other)
		_, err := p.Create(t.Context(), other)
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%s: %v", name, err)
	}
	_, err = p.Create(t.Context(), made)
	require.NoError(t, err)

	wrong, target := p.CreateInput.Disk, compute.ExportTarget{Format: compute.ImageRaw, Key: compute.KeyNone}
	wrong.Secret, _ = p.secret(t)
	in := disk.ExportInput{Server: p.Server, Operation: compute.NewOperationID(), Disk: wrong, Target: target}
	_, err = p.Export(t.Context(), in)
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
	p.rbd(t, "rm", "--no-progress", "vms/"+p.name())
	in.Disk = p.Disk
	_, err = p.Export(t.Context(), in)
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
	_, err = p.PoolImages(t.Context(), p.plan())
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
	require.NoError(t, p.Remove(t.Context(), ofFile(in.Server, compute.ExportFolder(in.Operation))))
	p.gone(t)
}

// isAnothers: what this host has no link to is another host's, or somebody else's.
func (p *pooled) isAnothers(t *testing.T) {
	p.rbd(t, "create", "--size", "8M", "vms/"+p.name())
	_, err := p.Create(t.Context(), p.CreateInput)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.NoError(t, p.Remove(t.Context(), ofFile(p.Server, p.Disk.Name())))
	require.Equal(t, []string{p.name()}, p.images(t))
	got := p.seen(t, compute.ThingDiskFile)
	require.NotContains(t, got, p.Server.String()+"/"+p.Disk.Name())
	p.rbd(t, "rm", "--no-progress", "vms/"+p.name())
}

// meetsSilence: a cluster that does not answer is worth another try, and soon.
func (p *pooled) meetsSilence(t *testing.T) {
	_, err := p.Create(t.Context(), p.CreateInput)
	require.NoError(t, err)
	live := p.Activities.Pool
	conf := filepath.Join(t.TempDir(), "ceph.conf")
	require.NoError(t, os.WriteFile(conf, []byte("[global]\nmon_host = 127.0.0.1:1\n[client]\nclient_mount_timeout = 1\n"), 0o600))
	p.Activities.Pool.ConfFile = conf
	for name, do := range map[string]func(context.Context) error{
		"create": func(ctx context.Context) error { _, err := p.Create(ctx, p.CreateInput); return err },
		"start":  func(ctx context.Context) error { _, err := p.PoolImages(ctx, p.plan()); return err },
		"room":   func(ctx context.Context) error { _, _, _, err := p.PoolRoom(ctx); return err },
		"delete": func(ctx context.Context) error {
			return p.Remove(ctx, ofFile(p.Server, p.Disk.Name()))
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // by itself a command waits for five
		err := do(ctx)
		cancel()
		require.Equal(t, compute.Unavailable, compute.KindOf(err), "%s: %v", name, err)
	}
	p.Activities.Pool = disk.Pool{}
	err = p.Remove(t.Context(), ofFile(p.Server, p.Disk.Name()))
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "no pool any more: %v", err)
	p.Activities.Pool = live
	p.gone(t)
}
