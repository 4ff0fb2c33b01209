package bench_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// exportMiB is how much random data is on the disk that is exported, and rounds
// how often each way is measured; the best of each are compared: whatever else the
// machine does makes a round longer, never shorter.
const (
	exportMiB = 1024
	rounds    = 7
)

// BenchmarkExport exports an encrypted disk full of random data with each choice
// of a key, and does the same work by hand in turn: cp of the disk's file (and
// qemu-img for what the disk has from its image alone), or qemu-img into a target
// whose encryption was set up before. It reports how many times as long the export
// takes.
func BenchmarkExport(b *testing.B) {
	for _, c := range []struct {
		name    string
		onImage bool
		target  compute.ExportTarget
		byHand  func(*exporting, string) time.Duration
	}{
		{"same", false, compute.ExportTarget{Key: compute.KeySame, Format: "qcow2"}, (*exporting).cp},
		{"same on an image", true, compute.ExportTarget{Key: compute.KeySame, Format: "qcow2"}, (*exporting).cpAndFlatten},
		{"new", false, compute.ExportTarget{Key: compute.KeyNew, Format: "qcow2"}, (*exporting).reencrypt},
		{"existing on an image", true, compute.ExportTarget{Key: compute.KeyExisting, Format: "qcow2"}, (*exporting).reencrypt},
		{"none", false, compute.ExportTarget{Key: compute.KeyNone, Format: "qcow2"}, (*exporting).decrypt},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := newExporting(b, c.onImage)
			e.Target = c.target
			switch c.target.Key {
			case compute.KeySame:
				e.Target.Secret = e.keys.add(b, e.keys.values[*e.Disk.Secret])
			case compute.KeyNew, compute.KeyExisting:
				e.Target.Secret = e.keys.add(b, e.keys.random(b))
			case compute.KeyNone:
			}
			e.export() // whatever is made once for a host is there
			for b.Loop() {
				var ours, theirs []time.Duration
				for range rounds {
					ours = append(ours, e.export())
					theirs = append(theirs, c.byHand(e, filepath.Join(e.dir, "by-hand.qcow2")))
				}
				mine, hand := slices.Min(ours), slices.Min(theirs)
				b.ReportMetric(mine.Seconds(), "s/export")
				b.ReportMetric(hand.Seconds(), "s/by-hand")
				b.ReportMetric(mine.Seconds()/hand.Seconds(), "x-by-hand")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// exporting is a host with a disk to export.
type exporting struct {
	*testing.B
	disk.ExportInput
	disks  *disk.Activities
	keys   *passphrases
	dir    string
	source string // the disk with all that it leans on, for QEMU: its key is "disk"
}

func newExporting(b *testing.B, onImage bool) *exporting {
	b.Helper()
	if _, err := exec.LookPath("qemu-img"); err != nil {
		b.Skip("needs qemu-img")
	}
	e := &exporting{B: b, dir: b.TempDir(), keys: &passphrases{values: map[compute.SecretID]string{}}}
	piece := filepath.Join(e.dir, "random")
	data := make([]byte, 64<<20)
	_, _ = rand.Read(data)
	require.NoError(b, os.WriteFile(piece, data, 0o600))
	var err error
	e.disks, err = disk.New(disk.Config{
		InstancesDir: filepath.Join(e.dir, "instances"), CacheDir: filepath.Join(e.dir, "cache"),
		Images: storedImage(piece), Keys: e.keys, Owner: &disk.Owner{UID: os.Getuid(), GID: os.Getgid()},
	})
	require.NoError(b, err)
	e.Server = compute.ServerID{UUID: uuid.New()}
	e.Disk = compute.Disk{
		ID: compute.DiskID{UUID: uuid.New()}, Role: compute.EphemeralDisk, SizeMB: exportMiB,
		Encrypted: true, Format: compute.FormatLUKS, Secret: e.keys.add(b, e.keys.random(b)),
	}
	from := 0
	backing := "null"
	if onImage {
		sum := sha256.Sum256(data)
		img := compute.Image{ID: compute.ImageID{UUID: uuid.New()}, DiskFormat: "raw", SizeBytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
		require.NoError(b, e.disks.CacheImage(b.Context(), disk.CacheImageInput{Image: img}))
		cached, err := e.disks.CachedImage("", img)
		require.NoError(b, err)
		e.Image, e.Disk.Role, e.Disk.SizeMB = &img, compute.RootDisk, exportMiB+64
		from, backing = 64, fmt.Sprintf(`{"driver":"raw","file":{"driver":"file","filename":%q}}`, cached)
	}
	_, err = e.disks.Create(b.Context(), disk.CreateInput{Server: e.Server, Disk: e.Disk, Image: e.Image})
	require.NoError(b, err)
	e.source = fmt.Sprintf(`json:{"driver":"qcow2","encrypt":{"format":"luks","key-secret":"disk"},"backing":%s,"file":{"driver":"file","filename":%q}}`,
		backing, e.file())
	args := []string{"--cache=none"}
	for at := range exportMiB / 64 {
		args = append(args, "-c", fmt.Sprintf("write -q -s %s %dM 64M", piece, from+at*64))
	}
	e.qemu("qemu-io", *e.Disk.Secret, nil, append(args, e.source)...)
	return e
}

func (e *exporting) file() string {
	return filepath.Join(e.disks.InstancesDir, e.Server.String(), e.Disk.Name())
}

// timed measures what is done once everything before it is on disk.
func (e *exporting) timed(do func()) time.Duration {
	e.Helper()
	require.NoError(e, exec.CommandContext(e.Context(), "sync").Run())
	begin := time.Now()
	do()
	return time.Since(begin)
}

func (e *exporting) export() time.Duration {
	e.Helper()
	e.Operation = compute.NewOperationID()
	took := e.timed(func() {
		_, err := e.disks.Export(e.Context(), e.ExportInput)
		require.NoError(e, err)
	})
	require.NoError(e, e.disks.Remove(e.Context(), compute.Removal{Thing: compute.Thing{
		Kind: compute.ThingDiskFile, Name: e.Server.String() + "/" + compute.ExportFolder(e.Operation),
	}}))
	return took
}

func (e *exporting) cp(to string) time.Duration {
	e.Helper()
	defer os.Remove(to)
	return e.timed(func() { require.NoError(e, exec.CommandContext(e.Context(), "cp", e.file(), to).Run()) })
}

func (e *exporting) cpAndFlatten(to string) time.Duration {
	e.Helper()
	defer os.Remove(to)
	return e.timed(func() {
		require.NoError(e, exec.CommandContext(e.Context(), "cp", e.file(), to).Run())
		e.qemu("qemu-img", *e.Disk.Secret, nil, "rebase", "-t", "unsafe", "-b", "", strings.ReplaceAll(e.source, e.file(), to))
	})
}

// reencrypt converts into a file that has its LUKS header already: to make one
// takes qemu-img 2 s more.
func (e *exporting) reencrypt(to string) time.Duration {
	e.Helper()
	defer os.Remove(to)
	const quick = "encrypt.format=luks,encrypt.key-secret=disk,encrypt.iter-time=10,encrypt.hash-alg=sha512"
	e.qemu("qemu-img", *e.Target.Secret, nil, "create", "-q", "-f", "qcow2", "-o", quick, to, fmt.Sprintf("%dM", e.Disk.SizeMB))
	return e.timed(func() {
		e.qemu("qemu-img", *e.Disk.Secret, e.Target.Secret, "convert", "-n", "-W", "-m", "16", "-t", "none", "-T", "none", "--target-is-zero",
			"--target-image-opts", e.source, "driver=qcow2,encrypt.format=luks,encrypt.key-secret=copy,file.filename="+to)
	})
}

// decrypt takes the faster of two ways to read and write.
func (e *exporting) decrypt(to string) time.Duration {
	e.Helper()
	var best time.Duration
	for _, cache := range []string{"none", "writeback"} {
		took := e.timed(func() {
			e.qemu("qemu-img", *e.Disk.Secret, nil, "convert", "-W", "-m", "16", "-t", cache, "-T", cache, "-O", "qcow2", e.source, to)
		})
		os.Remove(to)
		if best == 0 || took < best {
			best = took
		}
	}
	return best
}

// qemu runs a tool with the keys "disk" and, where there is one, "copy".
func (e *exporting) qemu(tool string, key compute.SecretID, copied *compute.SecretID, args ...string) {
	e.Helper()
	c := disk.Command{Name: tool, Args: args[:1], Passphrases: []*secret.Passphrase{secret.New([]byte(e.keys.values[key]))}}
	c.Args = append(slices.Clone(c.Args), "--object", "secret,id=disk,file=/dev/fd/3")
	if copied != nil {
		c.Args = append(c.Args, "--object", "secret,id=copy,file=/dev/fd/4")
		c.Passphrases = append(c.Passphrases, secret.New([]byte(e.keys.values[*copied])))
	}
	c.Args = append(c.Args, args[1:]...)
	_, err := disk.Exec{}.Run(e.Context(), c)
	require.NoError(e, err)
}

// passphrases are a key manager in memory.
type passphrases struct{ values map[compute.SecretID]string }

func (p *passphrases) random(b *testing.B) string {
	b.Helper()
	var text string
	made, err := secret.Generate(compute.DiskPassphraseBytes)
	require.NoError(b, err)
	require.NoError(b, made.Use(func(value []byte) error { text = string(value); return nil }))
	return text
}

func (p *passphrases) add(b *testing.B, value string) *compute.SecretID {
	b.Helper()
	id := compute.SecretID{UUID: uuid.New()}
	p.values[id] = value
	return &id
}

func (p *passphrases) Passphrase(_ context.Context, _ compute.Credential, id compute.SecretID) (*secret.Passphrase, error) {
	return secret.New([]byte(p.values[id])), nil
}

// storedImage is an image store with one image.
type storedImage string

func (s storedImage) Open(context.Context, compute.Credential, compute.ImageID) (io.ReadCloser, error) {
	return os.Open(string(s))
}
