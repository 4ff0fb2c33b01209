package disk_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/compute"
)

// rotating is a disk with two secrets, of which the first opens it.
type rotating struct {
	*testBundle
	server        compute.ServerID
	disk          compute.Disk
	path          string
	first, second string // passphrases
	secret        compute.SecretID
}

func newRotating(t *testing.T) *rotating {
	t.Helper()
	r := &rotating{testBundle: setup(t), server: newServer()}
	r.disk = compute.Disk{ID: newDisk(), Role: compute.EphemeralDisk, SizeMB: 8, Encrypted: true, Format: compute.FormatLUKS}
	r.disk.Secret, r.first = r.testBundle.secret(t)
	made, err := r.Create(t.Context(), disk.CreateInput{Server: r.server, Disk: r.disk})
	require.NoError(t, err)
	r.disk.EncryptionOptions = made.EncryptionOptions
	r.path = filepath.Join(r.InstancesDir, r.server.String(), r.disk.Name())
	var id *compute.SecretID
	id, r.second = r.testBundle.secret(t)
	r.secret = *id
	return r
}

func (r *rotating) slots(t *testing.T) []int {
	t.Helper()
	got, err := r.KeySlots(t.Context(), disk.KeySlotsInput{Server: r.server, Disks: []compute.Disk{r.disk}})
	require.NoError(t, err)
	return got.Slots[r.disk.ID.String()]
}

func (r *rotating) add(before []int) disk.AddKeyInput {
	return disk.AddKeyInput{Server: r.server, Disk: r.disk, Secret: r.secret, Before: before}
}

// added and old name key slots as the ledger does: those that an operation added beside
// others, and those that it parts with.
func (r *rotating) added(others []int) compute.Removal {
	name := compute.AddedKeySlots(r.server, r.disk.Name(), compute.NewOperationID())
	return compute.Removal{Thing: compute.Thing{Kind: compute.ThingKeySlot, Name: name, Reference: compute.FormatSlots(others)}}
}

func (r *rotating) old(slots []int) compute.Removal {
	name := compute.OldKeySlots(r.server, r.disk.Name(), compute.NewOperationID())
	return compute.Removal{Thing: compute.Thing{Kind: compute.ThingKeySlot, Name: name, Reference: compute.FormatSlots(slots)}}
}

// reads asks QEMU whether a passphrase opens the disk and what is at its start.
func (r *rotating) reads(t *testing.T, passphrase, pattern string) bool {
	t.Helper()
	return qemuIO(t, r.path, passphrase, "read -P "+pattern+" 0 4k") == nil
}

func qemuIO(t *testing.T, path, passphrase, command string) error {
	t.Helper()
	cmd := exec.Command("qemu-io", "-U", "-r", "--object", "secret,id=k,file=/dev/stdin", "--image-opts",
		"driver=qcow2,encrypt.format=luks,encrypt.key-secret=k,file.filename="+path, "-c", command)
	cmd.Stdin = strings.NewReader(passphrase)
	out, err := cmd.CombinedOutput()
	if err == nil && strings.Contains(string(out), "failed") {
		t.Fatalf("%s", out)
	}
	return err
}

// user is a QEMU that has the disk open and writes to it, as a guest's does.
type user struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	said *bufio.Scanner
}

func (r *rotating) use(t *testing.T) *user {
	t.Helper()
	key, w, err := os.Pipe()
	require.NoError(t, err)
	defer key.Close()
	_, err = w.WriteString(r.first)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	u := &user{t: t, cmd: exec.Command("qemu-io", "-n", "--object", "secret,id=k,file=/dev/fd/3", "--image-opts",
		"driver=qcow2,encrypt.format=luks,encrypt.key-secret=k,file.filename="+r.path)}
	u.cmd.ExtraFiles = []*os.File{key}
	u.in, err = u.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := u.cmd.StdoutPipe()
	require.NoError(t, err)
	u.said = bufio.NewScanner(out)
	require.NoError(t, u.cmd.Start())
	return u
}

func (u *user) write(pattern string) {
	u.t.Helper()
	_, err := io.WriteString(u.in, "write -P "+pattern+" 0 1M\nflush\n")
	require.NoError(u.t, err)
	for u.said.Scan() {
		if strings.Contains(u.said.Text(), "wrote ") {
			return
		}
	}
	require.Fail(u.t, "qemu-io said no more")
}

func (u *user) end() {
	u.t.Helper()
	_, err := io.WriteString(u.in, "quit\n")
	require.NoError(u.t, err)
	require.NoError(u.t, u.cmd.Wait())
}

// A rotation beside a QEMU that writes to the disk all the while: the data stay,
// both secrets open it until the first is erased, and QEMU notices nothing.
func TestRotateKeysOfADiskInUse(t *testing.T) {
	t.Parallel()
	r := newRotating(t)
	u := r.use(t)
	u.write("0x11")
	before := r.slots(t)
	require.Equal(t, []int{0}, before)
	var both sync.WaitGroup // a second attempt at once
	for range 2 {
		both.Go(func() {
			got, err := r.AddKey(t.Context(), r.add(before))
			require.NoError(t, err)
			require.Equal(t, encryptionOptions, got.EncryptionOptions)
		})
	}
	u.write("0x22")
	both.Wait()
	require.Equal(t, []int{0, 1}, r.slots(t))
	require.True(t, r.reads(t, r.first, "0x22"))
	require.True(t, r.reads(t, r.second, "0x22"))
	for range 2 {
		require.NoError(t, r.Remove(t.Context(), r.old(before)))
	}
	u.write("0x33")
	u.end()
	require.Equal(t, []int{1}, r.slots(t))
	require.False(t, r.reads(t, r.first, "0x33"))
	require.True(t, r.reads(t, r.second, "0x33"))
	check := exec.Command("qemu-img", "check", "--object", "secret,id=k,file=/dev/stdin", "--image-opts",
		"driver=qcow2,encrypt.format=luks,encrypt.key-secret=k,file.filename="+r.path)
	check.Stdin = strings.NewReader(r.second)
	out, err := check.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, arg := range r.runner.args {
		require.NotContains(t, arg, r.first)
		require.NotContains(t, arg, r.second)
	}
	require.Len(t, r.files(t), 2, "the folder and the disk: no lock is left")
}

// The undo erases whatever came, without a look at a secret.
func TestRotateKeysUndone(t *testing.T) {
	t.Parallel()
	r := newRotating(t)
	before := r.slots(t)
	_, err := r.AddKey(t.Context(), r.add(before))
	require.NoError(t, err)
	clear(r.keys)
	undo := r.added(before)
	for range 2 {
		require.NoError(t, r.Remove(t.Context(), undo))
	}
	require.Equal(t, before, r.slots(t))
	require.True(t, r.reads(t, r.first, "0"))
	require.False(t, r.reads(t, r.second, "0"))

	require.NoError(t, os.Remove(r.path))
	require.NoError(t, r.Remove(t.Context(), undo), "what is not there has no keys")
	require.NoError(t, os.RemoveAll(filepath.Dir(r.path)))
	require.NoError(t, r.Remove(t.Context(), undo))
}

func TestRotateKeysRefuses(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		change func(r *rotating, in *disk.AddKeyInput)
		kind   compute.Kind
	}{
		"a key that cannot be read":     {func(r *rotating, _ *disk.AddKeyInput) { delete(r.keys, *r.disk.Secret) }, compute.Forbidden},
		"a new key that cannot be read": {func(r *rotating, _ *disk.AddKeyInput) { delete(r.keys, r.secret) }, compute.Forbidden},
		"a key that opens nothing":      {func(r *rotating, _ *disk.AddKeyInput) { r.keys[*r.disk.Secret] = "another" }, compute.Corrupt},
		"no key":                        {func(_ *rotating, in *disk.AddKeyInput) { in.Disk.Secret = nil }, compute.Invalid},
		"no disk":                       {func(r *rotating, _ *disk.AddKeyInput) { os.Remove(r.path) }, compute.Corrupt},
		"no server":                     {func(_ *rotating, in *disk.AddKeyInput) { in.Server = newServer() }, compute.Corrupt},
		"no id":                         {func(_ *rotating, in *disk.AddKeyInput) { in.Server.UUID = uuid.Nil }, compute.Invalid},
		"a plain disk": {func(r *rotating, _ *disk.AddKeyInput) {
			out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", r.path, "8M").CombinedOutput()
			if err != nil {
				panic(string(out))
			}
		}, compute.Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRotating(t)
			in := r.add(r.slots(t))
			v.change(r, &in)
			_, err := r.AddKey(t.Context(), in)
			require.Equal(t, v.kind, compute.KindOf(err), "%v", err)
			require.NotContains(t, err.Error(), r.first)
			if _, gone := os.Stat(r.path); gone == nil && name != "a plain disk" {
				require.Equal(t, []int{0}, r.slots(t))
				require.True(t, r.reads(t, r.first, "0"))
			}
		})
	}
}

// The last slot stays, whoever asks.
func TestRemoveLeavesAKeySlot(t *testing.T) {
	t.Parallel()
	r := newRotating(t)
	for _, in := range []compute.Removal{r.old([]int{0}), r.added([]int{7})} {
		err := r.Remove(t.Context(), in)
		require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
		require.True(t, r.reads(t, r.first, "0"))
	}
}

// What tells of no slots erases none.
func TestRemoveRefusesKeySlots(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(r *rotating, in *compute.Thing)
		kind   compute.Kind
	}{
		"no slots":               {func(_ *rotating, in *compute.Thing) { in.Reference = "" }, compute.Invalid},
		"slots that are none":    {func(_ *rotating, in *compute.Thing) { in.Reference = "0,x" }, compute.Invalid},
		"no operation":           {func(r *rotating, in *compute.Thing) { in.Name = r.server.String() + "/disk.eph0" }, compute.Invalid},
		"a file elsewhere":       {func(r *rotating, in *compute.Thing) { in.Name = r.server.String() + "/../x#req-1" }, compute.Invalid},
		"a header of no LUKS":    {func(r *rotating, _ *compute.Thing) { r.damage(t, 1<<20) }, compute.Corrupt},
		"a file that was cut":    {func(r *rotating, _ *compute.Thing) { require.NoError(t, os.Truncate(r.path, 100)) }, compute.Corrupt},
		"an empty file":          {func(r *rotating, _ *compute.Thing) { require.NoError(t, os.Truncate(r.path, 0)) }, compute.Corrupt},
		"a header that is noise": {func(r *rotating, _ *compute.Thing) { r.damage(t, 4096) }, compute.Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRotating(t)
			in := r.added([]int{0})
			c.change(r, &in.Thing)
			err := r.Remove(t.Context(), in)
			require.Equal(t, c.kind, compute.KindOf(err), "%v", err)
		})
	}
}

// damage overwrites the beginning of the disk's file.
func (r *rotating) damage(t *testing.T, bytes int) {
	t.Helper()
	f, err := os.OpenFile(r.path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(make([]byte, bytes), 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
