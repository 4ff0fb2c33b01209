package domain_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/disk/disktest"
	"strongroom/activities/domain"
	"strongroom/activities/domain/keyring"
	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/compute/metadata"
	"strongroom/deploy/dev/libvirtd"
	"strongroom/deploy/guest"
)

// host is a compute host with a libvirtd of its own, an image and a key manager.
type host struct {
	*domain.Activities
	disks  *disk.Activities
	daemon *libvirtd.Daemon
	image  compute.Image
	rootMB int64 // of servers' root disks
	keys   *keys
	kept   *keyring.Keyring // nil: the kernel lets us keep none
	record record
}

// guestImage is what the servers of a host run, made once for all tests.
type guestImage struct {
	rootMB int64 // of the servers' root disks
	build  func() ([]byte, error)
}

var (
	tiny  = guestImage{64, once(talking(guest.Options{}))}
	roomy = guestImage{160, once(talking(guest.Options{SizeMiB: 160}))}
	idle  = guestImage{64, once(guest.BuildIdle)} // for what goes on around a guest: it says nothing
)

func talking(o guest.Options) func(context.Context, string) error {
	return func(ctx context.Context, out string) error { return guest.Build(ctx, out, o) }
}

func once(build func(ctx context.Context, out string) error) func() ([]byte, error) {
	return sync.OnceValues(func() ([]byte, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		dir, err := os.MkdirTemp("", "sr-image-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "guest.qcow2")
		if err := build(ctx, file); err != nil {
			return nil, err
		}
		return os.ReadFile(file)
	})
}

func setup(t *testing.T, image guestImage) *host {
	t.Helper()
	return setupIn(t, newDir(t), image)
}

// newDir makes a host's folder, and skips the test where there can be no host.
func newDir(t *testing.T) string {
	t.Helper()
	if os.Getenv("CI") == "" {
		if _, err := os.Stat("/usr/sbin/libvirtd"); err != nil || os.Getuid() != 0 {
			t.Skip("needs root and libvirtd")
		}
	}
	dir, err := os.MkdirTemp("/tmp", "sr-dom-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func setupIn(t *testing.T, dir string, image guestImage) *host {
	t.Helper()
	return setupOn(t, dir, "", image)
}

// setupOn has a host in a network namespace, "" for the machine's own.
func setupOn(t *testing.T, dir, netns string, image guestImage) *host {
	t.Helper()
	data, err := image.build()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h := &host{record: record{}, keys: &keys{values: map[compute.SecretID]string{}}, rootMB: image.rootMB}
	h.daemon, err = libvirtd.Start(ctx, libvirtd.Config{Dir: filepath.Join(dir, "lv"), Netns: netns, CacheDir: libvirtd.DefaultCacheDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.daemon.StopAll(context.Background())) })

	sum := sha256.Sum256(data)
	h.image = compute.Image{ID: compute.ImageID{UUID: uuid.New()}, DiskFormat: "qcow2", SizeBytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
	h.disks, err = disk.New(disk.Config{
		InstancesDir: filepath.Join(dir, "instances"), CacheDir: filepath.Join(dir, "images"), Images: imageStore(data), Keys: h.keys,
		Metadata: h.record, MemoryDir: t.TempDir()})
	require.NoError(t, err)
	disktest.Warm(t, h.disks)
	require.NoError(t, h.disks.CacheImage(ctx, disk.CacheImageInput{Image: h.image}))
	h.Activities, err = domain.New(domain.Config{
		Client: &domain.Client{Socket: h.daemon.Socket()}, Keys: h.keys, Images: h.disks, Exports: h.disks, Devices: h.disks,
		InstancesDir: h.disks.InstancesDir, RunDir: filepath.Join(dir, "run"), VirtType: "qemu",
		SaveDir: filepath.Join(dir, "lv", "lib", "qemu", "save"),
		Logger:  slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	require.NoError(t, err)
	h.disks.Copies = h.Activities
	if h.kept, err = keyring.Open(compute.HostID{UUID: uuid.New()}); os.Getenv("CI") == "" && err != nil {
		return h
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.kept.Clear()) })
	h.Kept, h.KeepsDisks = h.kept, true
	h.Comparable = func(_ context.Context, _ compute.ServerID, all []compute.SecretID) ([]compute.SecretID, error) {
		return all, nil
	}
	return h
}

// server plans a small server of the host's image.
func (h *host) server(t *testing.T, encrypted bool, tpm *compute.TPM) compute.Server {
	t.Helper()
	s := compute.Server{
		ID: compute.ServerID{UUID: uuid.New()}, Name: "test", Image: h.image, TPM: tpm,
		Flavor: compute.Flavor{Name: "tiny", VCPUs: 1, MemoryMB: 192},
		Disks:  []compute.Disk{{Role: compute.RootDisk, DeviceName: "/dev/vda", Image: &h.image.ID, SizeMB: h.rootMB}},
	}
	if encrypted {
		s.Disks = append(s.Disks,
			compute.Disk{Role: compute.EphemeralDisk, DeviceName: "/dev/vdb", SizeMB: 1024, BootIndex: -1},
			compute.Disk{Role: compute.SwapDisk, DeviceName: "/dev/vdc", SizeMB: 32, BootIndex: -1})
	}
	for i := range s.Disks {
		d := &s.Disks[i]
		d.ID, d.Bus = compute.DiskID{UUID: uuid.New()}, "virtio"
		if encrypted {
			d.Encrypted, d.Format, d.Secret = true, compute.FormatLUKS, h.keys.make(t, compute.DiskPassphraseBytes)
		}
	}
	if tpm != nil {
		tpm.Secret = h.keys.make(t, compute.TPMPassphraseBytes)
	}
	return s
}

// disksOf makes a server's disks.
func (h *host) disksOf(t *testing.T, s compute.Server) {
	t.Helper()
	var all sync.WaitGroup
	for _, d := range s.Disks {
		in := disk.CreateInput{Server: s.ID, Disk: d}
		if d.Role == compute.RootDisk {
			in.Image = &s.Image
		}
		all.Go(func() {
			_, err := h.disks.Create(t.Context(), in)
			require.NoError(t, err)
		})
	}
	all.Wait()
}

// secrets gives all secrets that libvirt knows.
func (h *host) secrets(t *testing.T) (all []libvirt.Secret) {
	t.Helper()
	require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) (err error) {
		all, _, err = l.ConnectListAllSecrets(1, 0)
		return err
	}))
	return all
}

// ask types a line on a server's console, waits for a line that begins with the answer
// and gives the rest of it.
func (h *host) ask(t *testing.T, s compute.Server, line, answer string) string {
	t.Helper()
	p := h.typist(t, s)
	defer p.line.Close() // only one may be connected
	return p.ask(line, answer)
}

// hear waits until the console log has a line that begins so, after the first
// so many boots, and gives the lines of that boot.
func (h *host) hear(t *testing.T, s compute.Server, line string, boots int) []string {
	t.Helper()
	var heard []string
	deadline := time.Now().Add(4 * time.Minute)
	for time.Now().Before(deadline) {
		log, _ := h.Console(t.Context(), domain.ConsoleInput{Server: s.ID}) // not there before the first boot
		if parts := strings.Split(log, "TG init "); len(parts) > boots+1 {
			heard = nil
			whole := parts[boots+1][:strings.LastIndex(parts[boots+1], "\n")+1] // the last line may still be on its way
			for _, l := range strings.Split(whole, "\n") {
				heard = append(heard, strings.TrimSpace(l))
				if strings.HasPrefix(heard[len(heard)-1], line) {
					return heard
				}
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	require.FailNow(t, "not heard: "+line, strings.Join(heard, "\n"))
	return nil
}

// qemus counts the QEMU processes of a server.
func qemus(t *testing.T, s compute.Server) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, f := range files {
		if argv, err := os.ReadFile(f); err == nil && bytes.Contains(argv, []byte("guest="+s.InstanceName()+",")) {
			n++
		}
	}
	return n
}

// grep reports the files below a folder that have a text in them.
func grep(t *testing.T, dir, text string) []string {
	t.Helper()
	cmd := exec.Command("grep", "-rlaFf", "-", dir)
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.Output()
	if err != nil {
		require.Equal(t, 1, cmd.ProcessState.ExitCode(), "grep: %v", err)
	}
	return strings.Fields(string(out))
}

// record knows a server's disks as they were planned.
type record map[compute.ServerID]compute.Server

func (r record) MetadataAfter(_ context.Context, id compute.ServerID, _ *compute.OperationID) (metadata.Server, error) {
	s := r[id]
	out := metadata.Server{ID: id, Name: s.Name, Hostname: s.Name, UserData: []byte("user data of " + s.Name)}
	for _, d := range s.Disks {
		out.Disks = append(out.Disks, metadata.Disk{Disk: d})
	}
	return out, nil
}

type imageStore []byte

func (s imageStore) Open(context.Context, compute.Credential, compute.ImageID) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(s)), nil
}

type keys struct {
	mu     sync.Mutex
	values map[compute.SecretID]string
}

func (k *keys) make(t *testing.T, bytes int) *compute.SecretID {
	t.Helper()
	id := compute.SecretID{UUID: uuid.New()}
	k.change(t, id, bytes)
	return &id
}

// change gives a secret another passphrase, and its old one back.
func (k *keys) change(t *testing.T, id compute.SecretID, bytes int) (old string) {
	t.Helper()
	p, err := secret.Generate(bytes)
	require.NoError(t, err)
	k.mu.Lock()
	defer k.mu.Unlock()
	old = k.values[id]
	require.NoError(t, p.Use(func(v []byte) error { k.values[id] = string(v); return nil }))
	return old
}

func (k *keys) set(id compute.SecretID, value string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.values[id] = value; value == "" {
		delete(k.values, id)
	}
}

func (k *keys) Passphrase(_ context.Context, _ compute.Credential, id compute.SecretID) (*secret.Passphrase, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	text, ok := k.values[id]
	if !ok {
		return nil, compute.Errorf(compute.Forbidden, "secret %s is not yours", id)
	}
	return secret.New([]byte(text)), nil
}
