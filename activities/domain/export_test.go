package domain_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// snapshot asks for a copy of a server's root disk as qcow2.
func (h *host) snapshot(t *testing.T, s compute.Server, choice compute.KeyChoice) domain.ExportInput {
	t.Helper()
	in := domain.ExportInput{Server: s.ID, Operation: compute.NewOperationID(), Disk: s.Disks[0]}
	in.Target = compute.ExportTarget{Format: compute.ImageQcow2, Key: choice}
	if choice != compute.KeyNone {
		in.Target.Secret = h.keys.make(t, compute.DiskPassphraseBytes)
	}
	if choice == compute.KeySame {
		h.keys.set(*in.Target.Secret, h.keys.values[*s.Disks[0].Secret])
	}
	return in
}

// started makes and starts a server.
func (h *host) started(t *testing.T, encrypted bool) compute.Server {
	t.Helper()
	s := h.server(t, encrypted, nil)
	h.disksOf(t, s)
	_, err := h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	return s
}

// running gives a started server whose guest has booted.
func (h *host) running(t *testing.T, encrypted bool) compute.Server {
	t.Helper()
	s := h.started(t, encrypted)
	h.hear(t, s, "TG ready", 0)
	return s
}

// monitor asks a server's QEMU itself.
func (h *host) monitor(t *testing.T, s compute.Server, command string, answer any) {
	t.Helper()
	var text string
	require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) error {
		dom, err := l.DomainLookupByUUID(libvirt.UUID(s.ID.UUID))
		if err != nil {
			return err
		}
		text, err = l.QEMUDomainMonitorCommand(dom, command, 0)
		return err
	}))
	require.NoError(t, json.Unmarshal([]byte(text), &struct{ Return any }{answer}), text)
}

// slow catches a server's backup job as soon as it is there, and makes it so slow
// that what the test does meanwhile is over before it.
func (h *host) slow(t *testing.T, s compute.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !h.setSpeed(ctx, t, s, 64<<10) {
	}
}

// hurry lets a backup job go on, if it is not over already.
func (h *host) hurry(t *testing.T, s compute.Server) {
	t.Helper()
	h.setSpeed(t.Context(), t, s, 0)
}

// setSpeed says how many bytes in a second a server's job copies, and whether there
// is a job.
func (h *host) setSpeed(ctx context.Context, t *testing.T, s compute.Server, bytes int) (found bool) {
	t.Helper()
	require.NoError(t, h.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		dom, err := l.DomainLookupByUUID(libvirt.UUID(s.ID.UUID))
		if err != nil {
			return err
		}
		text, err := l.QEMUDomainMonitorCommand(dom, `{"execute":"query-block-jobs"}`, 0)
		if err != nil {
			return err
		}
		job := regexp.MustCompile(`"device":"([^"]*)"`).FindStringSubmatch(text)
		if job != nil { // and if it is not over by now
			_, gone := l.QEMUDomainMonitorCommand(dom, fmt.Sprintf(
				`{"execute":"block-job-set-speed","arguments":{"device":%q,"speed":%d}}`, job[1], bytes), 0)
			found = gone == nil
		}
		return nil
	}))
	return found
}

// requireNothingLeft looks for jobs, secrets and drafts.
func (h *host) requireNothingLeft(t *testing.T, s compute.Server) {
	t.Helper()
	require.Empty(t, h.secrets(t))
	var jobs []any
	h.monitor(t, s, `{"execute":"query-jobs"}`, &jobs)
	require.Empty(t, jobs)
	var nodes []struct{ File string }
	h.monitor(t, s, `{"execute":"query-named-block-nodes"}`, &nodes)
	for _, n := range nodes {
		require.NotContains(t, n.File, "export.")
	}
	left, err := filepath.Glob(filepath.Join(h.InstancesDir, s.ID.String(), "export.*", ".*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// bootCopy runs an exported disk as another server's, with its own key.
func (h *host) bootCopy(t *testing.T, done compute.Export, in domain.ExportInput) compute.Server {
	t.Helper()
	s := compute.Server{
		ID: compute.ServerID{UUID: uuid.New()}, Name: "copy", Flavor: compute.Flavor{Name: "tiny", VCPUs: 1, MemoryMB: 192},
		Disks: []compute.Disk{{ID: compute.DiskID{UUID: uuid.New()}, Role: compute.RootDisk, DeviceName: "/dev/vda", Bus: "virtio"}},
	}
	if in.Target.Secret != nil {
		d := &s.Disks[0]
		d.Encrypted, d.Format, d.Secret = true, compute.FormatLUKS, in.Target.Secret
	}
	dir := filepath.Join(h.InstancesDir, s.ID.String())
	require.NoError(t, os.Mkdir(dir, 0o711))
	file := filepath.Join(dir, "disk")
	require.NoError(t, os.Rename(filepath.Join(h.InstancesDir, done.File), file))
	notes := make([]byte, 4096)
	n, err := unix.Listxattr(file, notes)
	require.NoError(t, err)
	require.Empty(t, string(notes[:n]), "libvirt takes it for in use")
	require.NoError(t, os.Chown(file, h.disks.Owner.UID, h.disks.Owner.GID))
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	h.hear(t, s, "TG ready", 0)
	return s
}

// writer makes a guest write a number to one file and then to another, over and
// over: at every moment the first is the second, or one ahead.
type writer struct {
	conn  net.Conn
	lines *bufio.Scanner
	done  atomic.Int64
	stop  atomic.Bool
	ended sync.WaitGroup
}

func (h *host) write(t *testing.T, s compute.Server) *writer {
	t.Helper()
	conn, err := net.Dial("unix", filepath.Join(h.RunDir, s.ID.String()+".sock"))
	require.NoError(t, err)
	w := &writer{conn: conn, lines: bufio.NewScanner(conn)}
	w.ended.Go(func() {
		for n := int64(1); !w.stop.Load(); n++ {
			for _, file := range []string{"first", "second"} {
				if !w.ask(fmt.Sprintf("write %s %d", file, n), "TG write") {
					return
				}
			}
			w.done.Store(n)
		}
	})
	t.Cleanup(w.end)
	require.Eventually(t, func() bool { return w.done.Load() > 2 }, time.Minute, 10*time.Millisecond)
	return w
}

func (w *writer) ask(line, answer string) bool {
	if _, err := fmt.Fprintln(w.conn, line); err != nil {
		return false
	}
	for w.lines.Scan() {
		if strings.Contains(w.lines.Text(), answer) {
			return true
		}
	}
	return false
}

func (w *writer) end() {
	w.stop.Store(true)
	w.ended.Wait()
	w.conn.Close()
}

// number reads what a guest's file holds.
func (h *host) number(t *testing.T, s compute.Server, file string) (n int64) {
	t.Helper()
	said := h.ask(t, s, "cat "+file, "TG cat ")
	_, err := fmt.Sscanf(said, `"%d" err=<nil>`, &n)
	require.NoError(t, err, said)
	return n
}

// The copy of a disk that is written to all the time is the disk as it was when
// the copy began; it boots, and opens with its own key alone.
func TestExportOfAGuestThatWrites(t *testing.T) {
	t.Parallel()
	h := setup(t, roomy)
	for encrypted, choices := range map[bool][]compute.KeyChoice{
		true: {compute.KeyNew, compute.KeySame, compute.KeyNone}, false: {compute.KeyExisting},
	} {
		s := h.running(t, encrypted)
		h.ask(t, s, "fill large 80", "TG fill file=large err=<nil>") // enough to be caught in the middle
		for _, choice := range choices {
			w := h.write(t, s)
			in := h.snapshot(t, s, choice)
			before := w.done.Load()
			var done compute.Export
			var err error
			var export sync.WaitGroup
			export.Go(func() { done, err = h.Export(t.Context(), in) })
			h.slow(t, s)
			began := w.done.Load()
			require.Empty(t, h.secrets(t), "QEMU has it: libvirt needs it no more")
			require.Eventually(t, func() bool { return w.done.Load() > began+20 }, time.Minute, 10*time.Millisecond)
			h.hurry(t, s)
			export.Wait()
			require.NoError(t, err)
			w.end()
			h.requireNothingLeft(t, s)
			again, err := h.Export(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, done, again)
			require.Equal(t, h.rootMB<<20, done.VirtualBytes)
			h.requireKeys(t, done, s, in)

			copied := h.bootCopy(t, done, in)
			first, second := h.number(t, copied, "first"), h.number(t, copied, "second")
			require.Contains(t, []int64{second, second + 1}, first)
			require.GreaterOrEqual(t, first, before)
			require.LessOrEqual(t, first, began+1, "not what was written while it was copied")
			require.NoError(t, h.Remove(t.Context(), ofDomain(copied.ID)))
		}
		require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
	}
}

// requireKeys tries the keys on a copy.
func (h *host) requireKeys(t *testing.T, done compute.Export, s compute.Server, in domain.ExportInput) {
	t.Helper()
	opens := func(id compute.SecretID) error {
		p, err := h.keys.Passphrase(t.Context(), compute.Credential{}, id)
		require.NoError(t, err)
		_, err = disk.Exec{}.Run(t.Context(), disk.Command{
			Name: "qemu-io", Passphrases: []*secret.Passphrase{p},
			Args: []string{"-r", "--object", "secret,id=key,file=/dev/fd/3", "--image-opts", "-c", "read 0 512",
				"driver=qcow2,encrypt.key-secret=key,file.filename=" + filepath.Join(h.InstancesDir, done.File)},
		})
		return err
	}
	if in.Target.Secret == nil {
		require.Empty(t, done.EncryptionOptions)
		return
	}
	require.Equal(t, "aes-256", done.EncryptionOptions["cipher-alg"])
	require.NoError(t, opens(*in.Target.Secret))
	if own := s.Disks[0].Secret; own != nil && in.Target.Key != compute.KeySame {
		require.ErrorContains(t, opens(*own), "Invalid password")
	}
}

// Every form of a copy has what the disk has.
func TestExportForms(t *testing.T) {
	t.Parallel()
	h := setup(t, tiny)
	s := h.running(t, true)
	h.ask(t, s, "write marker of-the-guest", "TG write")
	h.ask(t, s, "write /dev/vdb on-the-second-disk", "TG write")
	var copies []domain.ExportInput
	for _, target := range []compute.ExportTarget{
		{Format: "luks", Key: compute.KeyNew}, {Format: "raw", Key: compute.KeyNone}, {Format: "qcow2", Key: compute.KeyExisting},
	} {
		in := h.snapshot(t, s, target.Key)
		in.Target.Format = target.Format
		copies = append(copies, in)
	}
	second := h.snapshot(t, s, compute.KeyNone)
	second.Disk = s.Disks[1]
	copies = append(copies, second)
	_, err := h.Stop(t.Context(), domain.StopInput{Server: s.ID, GraceSeconds: 30}) // nothing is on its way to the disk any more
	require.NoError(t, err)
	_, err = h.Export(t.Context(), copies[0])
	require.Equal(t, compute.Conflict, compute.KindOf(err), "at rest it is disk.Export's: %v", err)
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	var paused libvirt.Domain
	require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) (err error) {
		if paused, err = l.DomainLookupByUUID(libvirt.UUID(s.ID.UUID)); err != nil {
			return err
		}
		return l.DomainSuspend(paused)
	}))
	var done []compute.Export
	for _, in := range copies {
		x, err := h.Export(t.Context(), in)
		require.NoError(t, err)
		h.requireNothingLeft(t, s)
		done = append(done, x)
	}
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
	for i, x := range done {
		raw := h.decrypted(t, x, copies[i])
		want, err := h.disks.Export(t.Context(), disk.ExportInput{
			Server: s.ID, Operation: compute.NewOperationID(), Disk: copies[i].Disk, Image: imageOf(s, copies[i].Disk),
			Target: compute.ExportTarget{Format: "raw", Key: compute.KeyNone},
		})
		require.NoError(t, err)
		out, err := exec.Command("cmp", raw, filepath.Join(h.InstancesDir, want.File)).CombinedOutput()
		require.NoError(t, err, "%s %s: %s", x.Format, copies[i].Disk.Name(), out)
	}
}

func imageOf(s compute.Server, d compute.Disk) *compute.Image {
	if d.Role == compute.RootDisk {
		return &s.Image
	}
	return nil
}

// decrypted gives a copy as a raw file.
func (h *host) decrypted(t *testing.T, x compute.Export, in domain.ExportInput) string {
	t.Helper()
	file := filepath.Join(h.InstancesDir, x.File)
	options := map[string]string{
		"luks": "driver=luks,key-secret=key,", "raw": "driver=raw,", "qcow2": "driver=qcow2,encrypt.format=luks,encrypt.key-secret=key,",
	}[x.Format]
	c := disk.Command{Name: "qemu-img", Args: []string{"convert", "-O", "raw", "--image-opts"}}
	if in.Target.Secret == nil {
		options = "driver=" + x.Format + ","
	} else {
		p, err := h.keys.Passphrase(t.Context(), compute.Credential{}, *in.Target.Secret)
		require.NoError(t, err)
		c.Passphrases = []*secret.Passphrase{p}
		c.Args = append(c.Args, "--object", "secret,id=key,file=/dev/fd/3")
	}
	raw := filepath.Join(t.TempDir(), "raw")
	c.Args = append(c.Args, options+"file.driver=file,file.filename="+file, raw)
	_, err := disk.Exec{}.Run(t.Context(), c)
	require.NoError(t, err)
	return raw
}
