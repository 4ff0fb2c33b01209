package agent_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"strongroom/activities/disk"
	"strongroom/activities/disk/disktest"
	"strongroom/activities/tpm"
	"strongroom/activities/tpm/tpmtest"
	"strongroom/compute"
	"strongroom/worker/agent"
	"strongroom/worker/pki"
)

// same sees that two files have the same bytes, and that the second one has no more blocks.
func same(t *testing.T, want, got string) {
	t.Helper()
	a, err := os.ReadFile(want)
	require.NoError(t, err)
	b, err := os.ReadFile(got)
	require.NoError(t, err)
	require.True(t, bytes.Equal(a, b), "%s is not as %s", got, want)
	require.LessOrEqual(t, blocks(t, got), blocks(t, want)+256)
}

// blocks is how much of the file system a file takes, in 512 bytes.
func blocks(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	s, ok := info.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	return s.Blocks
}

// A disk comes to another host byte for byte, with its holes; several attempts at once make one
// disk, and one more finds it done.
func TestReceiveADisk(t *testing.T) {
	t.Parallel()
	a := authority(t)
	from, to := newNode(t, a, "from"), newNode(t, a, "to")
	server, d := from.has(128, 33)
	var all errgroup.Group
	for range 3 {
		all.Go(func() error {
			for {
				if err := to.receive(t.Context(), from, server, d); !compute.Is(err, compute.Unavailable) {
					return err
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	require.NoError(t, all.Wait())
	same(t, from.path(server, d), to.path(server, d))
	require.Equal(t, []string{d.Name()}, to.left(server))
	require.Equal(t, []string{d.Name()}, from.left(server))
	sent := from.wire.sent.Load()
	require.Less(t, sent, int64(33+3*4+1)*mib, "holes were sent")
	require.NoError(t, to.receive(t.Context(), from, server, d))
	require.Equal(t, sent, from.wire.sent.Load(), "it was there")
}

// UEFI variables go over as they are, and those that are there are left alone: a guest may have written
// to them since.
func TestReceiveUEFIVariables(t *testing.T) {
	t.Parallel()
	a := authority(t)
	from, to := newNode(t, a, "from"), newNode(t, a, "to")
	server, d := from.has(16, 1)
	path := filepath.Join(filepath.Dir(from.path(server, d)), "nvram")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("variables"), 60_000), 0o600))
	in := disk.ReceiveNVRAMInput{Server: server, Operation: "req-1", File: "nvram", From: from.Agent}
	require.NoError(t, to.disks.ReceiveNVRAM(t.Context(), in))
	got := filepath.Join(to.disks.InstancesDir, server.String(), "nvram")
	same(t, path, got)
	require.Equal(t, []string{"nvram"}, to.left(server))
	require.NoError(t, os.WriteFile(got, []byte("newer"), 0o600))
	require.NoError(t, to.disks.ReceiveNVRAM(t.Context(), in))
	text, err := os.ReadFile(got)
	require.NoError(t, err)
	require.Equal(t, "newer", string(text))

	in.File = d.Name()
	require.Equal(t, compute.Invalid, compute.KindOf(to.disks.ReceiveNVRAM(t.Context(), in)))
	in.File = "nvram.0a1b2c3d"
	require.Equal(t, compute.NotFound, compute.KindOf(to.disks.ReceiveNVRAM(t.Context(), in)))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), in.File), make([]byte, 17<<20), 0o600))
	require.Equal(t, compute.Corrupt, compute.KindOf(to.disks.ReceiveNVRAM(t.Context(), in)), "none are as large")
}

// An encrypted root disk leans on the copy of its image that the other host has, in a cache that has
// another path there; all else of it is as it was.
func TestReceiveAnEncryptedRootDisk(t *testing.T) {
	t.Parallel()
	a := authority(t)
	from, to := newNode(t, a, "from"), newNode(t, a, "to-with-a-longer-name")
	disktest.Warm(t, from.disks)
	id := compute.ImageID{UUID: uuid.New()}
	sum := sha256.Sum256(imageData(id))
	img := &compute.Image{ID: id, DiskFormat: "raw", SizeBytes: mib, SHA256: hex.EncodeToString(sum[:])}
	server := compute.ServerID{UUID: uuid.New()}
	d := compute.Disk{
		ID: compute.DiskID{UUID: uuid.New()}, Role: compute.RootDisk, SizeMB: 16, Image: &id,
		Encrypted: true, Format: compute.FormatLUKS, Secret: &compute.SecretID{UUID: uuid.New()},
	}
	in := disk.ReceiveInput{Server: server, Operation: "req-1", Disk: d, Image: img, From: from.Agent}
	require.NoError(t, from.disks.CacheImage(t.Context(), disk.CacheImageInput{Image: *img}))
	create := disk.CreateInput{Server: server, Disk: d, Image: img}
	_, err := from.disks.Create(t.Context(), create)
	require.NoError(t, err)

	require.Equal(t, compute.NotFound, compute.KindOf(to.disks.Receive(t.Context(), in)), "its cache has no image")
	require.NoError(t, to.disks.CacheImage(t.Context(), disk.CacheImageInput{Image: *img}))
	require.NoError(t, to.disks.Receive(t.Context(), in))
	_, err = to.disks.Create(t.Context(), create) // it opens with its passphrase, and is what a create would make
	require.NoError(t, err)
	theirs, err := os.ReadFile(from.path(server, d))
	require.NoError(t, err)
	ours, err := os.ReadFile(to.path(server, d))
	require.NoError(t, err)
	require.Len(t, ours, len(theirs))
	require.True(t, bytes.Equal(theirs[64<<10:], ours[64<<10:]), "nothing but the name in the header is another")
	require.NotEqual(t, theirs[:64<<10], ours[:64<<10])

	// Without its image it is not that disk.
	other := newNode(t, a, "other")
	in.Image = nil
	require.Equal(t, compute.Corrupt, compute.KindOf(other.disks.Receive(t.Context(), in)))
	in.Image, in.Disk.SizeMB = img, 17
	require.NoError(t, other.disks.CacheImage(t.Context(), disk.CacheImageInput{Image: *img}))
	require.Equal(t, compute.Corrupt, compute.KindOf(other.disks.Receive(t.Context(), in)))
	require.NoFileExists(t, other.path(server, d))
	remove(t, other, server, d)
	require.Empty(t, other.left(server))
}

// remove removes what a receive left, as the undo of its step.
func remove(t *testing.T, n *node, server compute.ServerID, d compute.Disk) {
	t.Helper()
	thing := compute.Thing{Kind: compute.ThingDiskFile, Name: server.String() + "/" + d.Name()}
	require.NoError(t, n.disks.Remove(t.Context(), compute.Removal{Thing: thing}))
}

// What was cut off goes on: what was durable is not sent again.
func TestReceiveGoesOn(t *testing.T) {
	t.Parallel()
	a := authority(t)
	from, to := newNode(t, a, "from"), newNode(t, a, "to")
	server, d := from.has(256, 64)
	from.wire.cutAt.Store(40 * mib)
	require.Equal(t, compute.Unavailable, compute.KindOf(to.receive(t.Context(), from, server, d)))
	require.ElementsMatch(t, []string{"." + d.Name() + ".new", "." + d.Name() + ".received"}, to.left(server))
	seen, err := to.disks.Seen(t.Context(), compute.SeenInput{})
	require.NoError(t, err)
	for _, s := range seen.Seen {
		require.Equal(t, server.String()+"/"+d.Name(), s.Name)
	}
	require.NoError(t, to.receive(t.Context(), from, server, d))
	same(t, from.path(server, d), to.path(server, d))
	// The data begins and ends amid parts of 2 MiB, which are sent whole.
	require.Less(t, from.wire.sent.Load(), int64(66+segmentMB)*mib)

	// What is on the disk is compared again: what the host lost with its power is sent again.
	remove(t, to, server, d)
	from.wire.sent.Store(0)
	from.wire.cutAt.Store(40 * mib)
	require.Equal(t, compute.Unavailable, compute.KindOf(to.receive(t.Context(), from, server, d)))
	draft, err := os.OpenFile(filepath.Join(filepath.Dir(to.path(server, d)), "."+d.Name()+".new"), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = draft.WriteAt(make([]byte, mib), (hole+1)*mib)
	require.NoError(t, err)
	require.NoError(t, draft.Close())
	require.Equal(t, compute.Unavailable, compute.KindOf(to.receive(t.Context(), from, server, d)))
	require.NoError(t, to.receive(t.Context(), from, server, d))
	same(t, from.path(server, d), to.path(server, d))

	// A disk that has changed is not put together of two.
	remove(t, to, server, d)
	from.wire.cutAt.Store(from.wire.sent.Load() + 40*mib)
	require.Equal(t, compute.Unavailable, compute.KindOf(to.receive(t.Context(), from, server, d)))
	from.fill(from.path(server, d), 63)
	require.NoError(t, to.receive(t.Context(), from, server, d))
	same(t, from.path(server, d), to.path(server, d))

	// What is half there goes with the undo.
	remove(t, to, server, d)
	from.wire.cutAt.Store(from.wire.sent.Load() + 40*mib)
	require.Equal(t, compute.Unavailable, compute.KindOf(to.receive(t.Context(), from, server, d)))
	remove(t, to, server, d)
	require.Empty(t, to.left(server))
}

// Nothing is handed on but what is granted, of a guest that is off, and to nobody else. What
// is refused is in the log.
func TestNothingIsHandedOnWithoutATicket(t *testing.T) {
	t.Parallel()
	a := authority(t)
	from, to, thief := newNode(t, a, "from"), newNode(t, a, "to"), newNode(t, a, "thief")
	server, d := from.has(16, 8)
	state := filepath.Join(from.tpms.SwtpmDir, server.String(), "tpm2")
	require.NoError(t, os.MkdirAll(state, 0o711))
	require.NoError(t, os.WriteFile(filepath.Join(state, "tpm2-00.permall"), tpmtest.State("state"), 0o600))
	runs := true
	from.granted = func(tr compute.Transfer, who *x509.Certificate) error {
		name, err := pki.NameOf(who)
		if err != nil || name != pki.HostName(to.Host) || !runs || tr.Operation != "req-1" || tr.Server != server {
			return compute.Errorf(compute.Forbidden, "no such operation")
		}
		return nil
	}
	both := func(n *node, op compute.OperationID) []compute.Kind {
		return []compute.Kind{
			compute.KindOf(n.disks.Receive(t.Context(), disk.ReceiveInput{Server: server, Operation: op, Disk: d, From: from.Agent})),
			compute.KindOf(n.tpms.Receive(t.Context(), tpm.ReceiveInput{Server: server, Operation: op, From: from.Agent})),
		}
	}
	twice := func(k compute.Kind) []compute.Kind { return []compute.Kind{k, k} }
	refused := func(n *node, op compute.OperationID, why string) {
		t.Helper()
		require.Equal(t, twice(compute.Forbidden), both(n, op), why)
		lines := from.log.take("level=WARN msg=\"refused to hand on, or broke off\" peer=" + string(pki.HostName(n.Host)) + " address=127.0.0.1:")
		require.Len(t, lines, 2, why)
		for _, line := range lines {
			require.Contains(t, line, "operation="+string(op), why)
			require.Contains(t, line, "thing="+server.String(), why)
			require.Contains(t, line, "no such operation", why)
		}
	}
	refused(thief, "req-1", "another host")
	refused(to, "req-0", "another operation")
	runs = false
	refused(to, "req-1", "it has ended")
	runs = true
	from.isOff = func() error { return compute.Errorf(compute.Conflict, "it runs") }
	require.Equal(t, twice(compute.Conflict), both(to, "req-1"), "the guest runs")
	from.isOff = nil

	foreign := newNode(t, authority(t), "foreign")
	require.Equal(t, twice(compute.Unavailable), both(foreign, "req-1"), "another cloud's")
	elsewhere := from.Agent
	elsewhere.Host = to.Host
	require.Equal(t, compute.Unavailable, compute.KindOf(to.disks.Receive(t.Context(), disk.ReceiveInput{Server: server, Operation: "req-1", Disk: d, From: elsewhere})), "another host answers")
	elsewhere = from.Agent
	elsewhere.URL = "http" + elsewhere.URL[len("https"):]
	require.Equal(t, compute.Conflict, compute.KindOf(to.disks.Receive(t.Context(), disk.ReceiveInput{Server: server, Operation: "req-1", Disk: d, From: elsewhere})), "in the clear")
	require.Empty(t, to.left(server))
	require.Empty(t, thief.left(server))

	require.Equal(t, twice(""), both(to, "req-1"))
}

// Whatever a host asks for, it gets no file but a disk of the server that the ticket is for.
func TestNoOtherFileIsHandedOn(t *testing.T) {
	t.Parallel()
	a := authority(t)
	from, to := newNode(t, a, "from"), newNode(t, a, "to")
	server, d := from.has(16, 1)
	dir := filepath.Dir(from.path(server, d))
	for _, name := range []string{"console.log", compute.ConfigDriveFile, ".disk.eph0.new"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("text"), 0o600))
	}
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "disk.swap")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "disk.eph7"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "disk.eph8"), 0o700))
	client := agent.Client{Identity: to.identity, Accepts: everybody}
	other := compute.ServerID{UUID: uuid.New()}
	for name, kind := range map[string]compute.Kind{
		server.String() + "/console.log":                       compute.Invalid,
		server.String() + "/" + compute.ConfigDriveFile:        compute.Invalid,
		server.String() + "/.disk.eph0.new":                    compute.Invalid,
		server.String() + "/disk/../../x":                      compute.Invalid,
		server.String() + "/../" + server.String() + "/" + "x": compute.Invalid,
		other.String() + "/disk.eph0":                          compute.Invalid,
		"disk.eph0":                                            compute.Invalid,
		"":                                                     compute.Invalid,
		server.String() + "/disk.eph3":                         compute.NotFound,
		server.String() + "/disk.swap":                         compute.Conflict,
		server.String() + "/disk.eph7":                         compute.Conflict,
		server.String() + "/disk.eph8":                         compute.Conflict,
	} {
		_, err := client.Layout(t.Context(), from.Agent, compute.Transfer{Server: server, Operation: "req-1", Kind: compute.ThingDiskFile, Name: name})
		require.Equal(t, kind, compute.KindOf(err), name)
		require.NotContains(t, err.Error(), "root:")
	}
	for _, tr := range []compute.Transfer{
		{Server: server, Operation: "req-1", Kind: compute.ThingTPMState, Name: server.String() + "/disk.eph0"},
		{Server: server, Operation: "req-1", Kind: compute.ThingCachedImage, Name: server.String() + "/disk.eph0"},
	} {
		_, err := client.Layout(t.Context(), from.Agent, tr)
		require.Equal(t, compute.Invalid, compute.KindOf(err))
	}
	_, _, err := client.TPM(t.Context(), from.Agent, compute.Transfer{Server: server, Kind: compute.ThingTPMState, Name: "../" + server.String()})
	require.Equal(t, compute.Invalid, compute.KindOf(err))
	_, err = client.Segments(t.Context(), from.Agent, compute.Transfer{Server: server, Kind: compute.ThingDiskFile, Name: server.String() + "/disk.eph0"}, "x", -1)
	require.Equal(t, compute.Invalid, compute.KindOf(err))
	console, err := client.Console(t.Context(), from.Host, from.URL, server, 7)
	require.Error(t, err, "a host is not the api: %s", console)
}

// A host that was lost to an attacker gives another one nothing but the disk that this asks for.
func TestAHostThatLies(t *testing.T) {
	t.Parallel()
	a := authority(t)
	to := newNode(t, a, "to")
	liar := compute.Agent{Host: compute.HostID{UUID: uuid.New()}, Name: "liar"}
	identity, err := a.Process(pki.HostName(liar.Host))
	require.NoError(t, err)
	server := compute.ServerID{UUID: uuid.New()}
	d := compute.Disk{ID: compute.DiskID{UUID: uuid.New()}, Role: compute.EphemeralDisk, SizeMB: 8}
	var layout disk.Layout
	var stream []byte
	header := http.Header{}
	liar.URL = serve(t, identity, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/disk/layout" {
			_ = json.NewEncoder(w).Encode(layout)
			return
		}
		for k := range header {
			w.Header().Set(k, header.Get(k))
		}
		_, _ = w.Write(stream)
	}))
	receive := func(l disk.Layout, data []byte) compute.Kind {
		layout, stream = l, data
		return compute.KindOf(to.disks.Receive(t.Context(), disk.ReceiveInput{Server: server, Operation: "req-1", Disk: d, From: liar}))
	}
	good := bytes.Repeat([]byte("no qcow2"), 1000)
	sum := sha256.Sum256(good)
	all := sha256.Sum256(sum[:])
	one := disk.Layout{Bytes: int64(len(good)), Version: "1", Data: []byte{1}}
	whole := bytes.Join([][]byte{good, sum[:], all[:]}, nil)

	for name, l := range map[string]disk.Layout{
		"empty":                {Version: "1"},
		"negative":             {Bytes: -1, Version: "1"},
		"larger than the disk": {Bytes: 100 << 20, Version: "1", Data: make([]byte, 7)},
		"of many segments":     {Bytes: 1 << 20, Version: "1", Data: make([]byte, 2)},
		"of no segments":       {Bytes: 1 << 20, Version: "1"},
		"with data behind it":  {Bytes: 1 << 20, Version: "1", Data: []byte{3}},
		"of a long version":    {Bytes: 1 << 20, Version: string(make([]byte, 1000)), Data: []byte{1}},
	} {
		require.Equal(t, compute.Corrupt, receive(l, whole), name)
		require.Empty(t, to.left(server), name)
	}
	d.SizeMB = 8 << 20
	require.Equal(t, compute.NoHost, receive(disk.Layout{Bytes: 8 << 40, Version: "1", Data: bytes.Repeat([]byte{255}, 8<<40/(2<<20)/8)}, whole))
	require.Empty(t, to.left(server), "nothing was made")
	d.SizeMB = 8
	wrong := bytes.Clone(whole)
	wrong[0] = 'X'
	require.Equal(t, compute.Corrupt, receive(one, wrong), "another sha256")
	wrong = bytes.Clone(whole)
	wrong[len(wrong)-1]++
	require.Equal(t, compute.Corrupt, receive(one, wrong), "another sha256 of all")
	require.Equal(t, compute.Unavailable, receive(one, whole[:100]), "cut off")
	require.Equal(t, compute.Unavailable, receive(one, whole[:len(whole)-1]), "cut off at its end")
	remove(t, to, server, d)
	require.Equal(t, compute.Corrupt, receive(one, whole), "no qcow2")
	require.NoFileExists(t, to.path(server, d))
	remove(t, to, server, d)
	require.Empty(t, to.left(server))

	state := func(data []byte, sha string) compute.Kind {
		stream = data
		header.Set("Strongroom-Sha256", sha)
		return compute.KindOf(to.tpms.Receive(t.Context(), tpm.ReceiveInput{Server: server, Operation: "req-1", From: liar}))
	}
	hexOf := func(data []byte) string {
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:])
	}
	require.Equal(t, compute.Corrupt, state(good, hexOf(whole)), "another sha256")
	require.Equal(t, compute.Corrupt, state(good, hexOf(good)), "no tar")
	sparse := tarOf(t, "tpm2", 2000, 0)
	require.Equal(t, compute.Corrupt, state(sparse, hexOf(sparse)), "more files than a TPM has")
	for _, name := range []string{"../x", "/x", ".strongroom"} {
		outside := tarOf(t, name, 1, 1)
		require.Equal(t, compute.Corrupt, state(outside, hexOf(outside)), name)
	}
	endless := make([]byte, 65<<20)
	require.Equal(t, compute.Corrupt, state(endless, hexOf(endless)), "more than a TPM has")
	left, err := os.ReadDir(to.tpms.SwtpmDir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// tarOf gives a tar of so many files.
func tarOf(t *testing.T, name string, files int, bytesOfEach int64) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := range files {
		if files > 1 {
			name = strconv.Itoa(i)
		}
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: bytesOfEach}))
		_, err := w.Write(make([]byte, bytesOfEach))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// TPM-02: the state of a vTPM comes bit for bit with its modes, belongs to swtpm there, and stays
// where it was.
func TestReceiveTPMState(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it gives files to others")
	}
	a := authority(t)
	from, to := newNode(t, a, "from"), newNode(t, a, "to")
	server := compute.ServerID{UUID: uuid.New()}
	file := func(n *node) string {
		return filepath.Join(n.tpms.SwtpmDir, server.String(), "tpm2", "tpm2-00.permall")
	}
	in := tpm.ReceiveInput{Server: server, Operation: "req-1", From: from.Agent}
	require.Equal(t, compute.Corrupt, compute.KindOf(to.tpms.Receive(t.Context(), in)), "there is none")
	require.NoError(t, os.MkdirAll(filepath.Dir(file(from)), 0o711))
	require.NoError(t, os.Chmod(filepath.Dir(file(from)), 0o700))
	require.NoError(t, os.WriteFile(file(from), tpmtest.State("some state"), 0o600))
	var all errgroup.Group
	for range 2 {
		all.Go(func() error { return to.tpms.Receive(t.Context(), in) })
	}
	require.NoError(t, all.Wait())
	for path, mode := range map[string]os.FileMode{filepath.Dir(file(to)): 0o700, file(to): 0o600} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm())
		owner, ok := info.Sys().(*syscall.Stat_t)
		require.True(t, ok)
		require.Equal(t, []int{to.tpms.Owner.UID, to.tpms.Owner.GID}, []int{int(owner.Uid), int(owner.Gid)})
	}
	same(t, file(from), file(to))

	// The guest has started since: a late attempt takes nothing from it.
	require.NoError(t, os.WriteFile(file(to), []byte("it went on"), 0o600))
	require.NoError(t, to.tpms.Receive(t.Context(), in))
	data, err := os.ReadFile(file(to))
	require.NoError(t, err)
	require.Equal(t, "it went on", string(data))
	thing := compute.Thing{Kind: compute.ThingTPMState, Name: server.String(), Operation: "req-1"}
	require.NoError(t, to.tpms.Remove(context.WithoutCancel(t.Context()), compute.Removal{Thing: thing}))
	require.NoDirExists(t, filepath.Dir(file(to)))
	require.FileExists(t, file(from))
}
