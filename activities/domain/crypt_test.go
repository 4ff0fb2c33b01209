package domain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/compute"
	"strongroom/deploy/guest/vm"
)

// crypt is what opens volumes for a host of which the kernel cannot: a machine's disk activities
// do, with its dm-crypt, and what is open there comes over as a network block device and is a loop
// device here. The guest's data are decrypted nowhere else.
type crypt struct {
	t       *testing.T
	machine *vm.Running
	keys    *keys

	mu     sync.Mutex
	open   map[compute.DiskID]string // loop devices
	export *exec.Cmd                 // makes a file of the network block device
	ended  chan struct{}             // the export has
}

// newCrypt starts the machine and gives it the host's image.
func newCrypt(t *testing.T, h *host) *crypt {
	t.Helper()
	c := &crypt{t: t, machine: cryptMachine.Start(t), keys: h.keys, open: map[compute.DiskID]string{}}
	t.Cleanup(func() { require.NoError(t, c.detach()) })
	text, err := json.Marshal(h.image)
	require.NoError(t, err)
	file, err := h.disks.CachedImage("", h.image)
	require.NoError(t, err)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		select {
		case <-c.machine.Over():
			require.FailNow(t, "the machine ended")
		default:
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, c.url("image"), bytes.NewReader(data))
		require.NoError(t, err)
		r.Header.Set("Image", string(text))
		_, err = c.send(r)
		return err == nil
	}, 5*time.Minute, time.Second, "the machine")
	return c
}

func (c *crypt) url(path string) string { return "http://" + c.machine.Address(askPort) + "/" + path }

func (c *crypt) send(r *http.Request) (told, error) {
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return told{}, err
	}
	defer got.Body.Close()
	var out told
	if err := json.NewDecoder(got.Body).Decode(&out); err != nil {
		return out, err
	}
	if out.Error != "" {
		return out, compute.Errorf(out.Kind, "%s", out.Error)
	}
	return out, nil
}

// ask asks the machine, which gets the keys as the host's activities do.
func (c *crypt) ask(ctx context.Context, path string, in asked) (told, error) {
	c.keys.mu.Lock()
	in.Keys = c.keys.values
	text, err := json.Marshal(in)
	c.keys.mu.Unlock()
	if err != nil {
		return told{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url(path), bytes.NewReader(text))
	if err != nil {
		return told{}, err
	}
	return c.send(r)
}

func (c *crypt) OpenDevices(ctx context.Context, _ compute.Credential, s compute.Server) (map[compute.DiskID]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	got, err := c.ask(ctx, "open", asked{Server: s})
	if err != nil {
		return nil, err
	}
	for _, d := range s.Disks {
		if got.Paths[d.ID.String()] != "" && c.open[d.ID] == "" {
			if c.open[d.ID], err = c.attach(); err != nil {
				return nil, err
			}
		}
	}
	return c.open, nil
}

// attach makes a block device of what the machine serves.
func (c *crypt) attach() (string, error) {
	file := filepath.Join(c.t.TempDir(), "device")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return "", err
	}
	host, port, _ := strings.Cut(c.machine.Address(devicePort), ":")
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
		c.export = exec.Command("qemu-storage-daemon",
			"--blockdev", fmt.Sprintf("driver=nbd,node-name=n,server.type=inet,server.host=%s,server.port=%s", host, port),
			"--export", "type=fuse,id=e,node-name=n,writable=on,mountpoint="+file)
		c.export.Stderr = c.t.Output()
		if err := c.export.Start(); err != nil {
			return "", err
		}
		c.ended = make(chan struct{})
		go func(export *exec.Cmd, ended chan<- struct{}) { _ = export.Wait(); close(ended) }(c.export, c.ended)
		if served(file, c.ended) {
			break
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("the machine's device is not served")
		}
	}
	out, err := exec.Command("losetup", "--find", "--show", file).Output()
	return strings.TrimSpace(string(out)), err
}

// served waits until a file is as large as its device, or what makes it has ended.
func served(file string, ended <-chan struct{}) bool {
	for {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// detach gives the block devices back.
func (c *crypt) detach() error {
	for id, path := range c.open {
		if out, err := exec.Command("losetup", "--detach", path).CombinedOutput(); err != nil {
			return fmt.Errorf("losetup: %w: %s", err, out)
		}
		delete(c.open, id)
	}
	if c.export != nil {
		_ = c.export.Process.Signal(os.Interrupt)
		<-c.ended
		c.export = nil
	}
	return nil
}

func (c *crypt) CloseDevices(ctx context.Context, server compute.ServerID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.detach(); err != nil {
		return err
	}
	_, err := c.ask(ctx, "close", asked{Server: compute.Server{ID: server}})
	return err
}

func (c *crypt) OpenServers(ctx context.Context) ([]compute.ServerID, error) {
	got, err := c.ask(ctx, "servers", asked{})
	return got.Servers, err
}

func (c *crypt) DeviceFormats(ctx context.Context) ([]compute.DiskFormat, error) {
	got, err := c.ask(ctx, "formats", asked{})
	return got.Formats, err
}

func (c *crypt) DeviceRoomMB(context.Context) (*int64, error) { return nil, nil }

func (c *crypt) PoolImages(context.Context, compute.Server) (map[compute.DiskID]string, error) {
	return nil, nil
}

func (c *crypt) PoolRoom(context.Context) (total, free int64, ok bool, err error) {
	return 0, 0, false, nil
}

func (c *crypt) NoteBoot(context.Context, compute.ServerID, time.Time) error { return nil }

// create makes a disk, and gives how it is encrypted.
func (c *crypt) create(s compute.Server, d compute.Disk) map[string]string {
	c.t.Helper()
	got, err := c.ask(c.t.Context(), "create", asked{Create: disk.CreateInput{Server: s.ID, Disk: d, Image: &s.Image}})
	require.NoError(c.t, err)
	return got.Options
}

// exported makes an image of a disk that is closed, and fetches it.
func (c *crypt) exported(s compute.Server, d compute.Disk, to compute.ExportTarget) (file string) {
	c.t.Helper()
	op := compute.NewOperationID()
	got, err := c.ask(c.t.Context(), "export", asked{Export: disk.ExportInput{Server: s.ID, Operation: op, Disk: d, Image: &s.Image, Target: to}})
	require.NoError(c.t, err)
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.url("file?name="+got.Export.File), nil)
	require.NoError(c.t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(c.t, err)
	defer answer.Body.Close()
	require.Equal(c.t, http.StatusOK, answer.StatusCode)
	file = filepath.Join(c.t.TempDir(), "image.qcow2")
	image, err := os.Create(file)
	require.NoError(c.t, err)
	_, err = io.Copy(image, answer.Body)
	require.NoError(c.t, err)
	require.NoError(c.t, image.Close())
	_, err = c.ask(c.t.Context(), "remove", asked{Remove: ofFile(s.ID, compute.ExportFolder(op))})
	require.NoError(c.t, err)
	return file
}

// end sees that no volume is left, and that the machine is content.
func (c *crypt) end() {
	c.t.Helper()
	_, err := c.ask(c.t.Context(), "end", asked{})
	require.NoError(c.t, err)
	c.machine.Wait()
}

// shows reports whether the machine's disk, on which the volumes are, has a text anywhere.
func (c *crypt) shows(text string) bool {
	return exec.Command("grep", "-qaF", text, c.machine.Disk).Run() == nil
}

// removed deletes a disk.
func (c *crypt) removed(s compute.Server, d compute.Disk) {
	c.t.Helper()
	_, err := c.ask(c.t.Context(), "remove", asked{Remove: ofFile(s.ID, d.Name())})
	require.NoError(c.t, err)
}

// servers gives those with open disks.
func (c *crypt) servers() []compute.ServerID {
	c.t.Helper()
	got, err := c.OpenServers(c.t.Context())
	require.NoError(c.t, err)
	return got
}

// closed sees that nothing is open.
func (c *crypt) closed(why string) {
	c.t.Helper()
	require.Empty(c.t, c.servers(), why)
	require.Empty(c.t, c.open, why)
}
