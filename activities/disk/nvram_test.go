package disk_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/firmware"
	"strongroom/activities/object"
	"strongroom/activities/object/local"
	"strongroom/compute"
)

// UEFI variables are those of a new machine, or a copy; made once, they are left as the guest has them.
// They are seen, and removed, as other files of the server are.
func TestUEFIVariables(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := os.Stat(firmware.Folder); err != nil && os.Getenv("CI") == "" {
		t.Skip("needs the package ovmf")
	}
	server := compute.ServerID{UUID: uuid.New()}
	in := disk.NVRAMInput{Server: server, File: "nvram", Firmware: compute.Firmware{UEFI: true, SecureBoot: compute.SecureBootRequired}}
	path := filepath.Join(b.InstancesDir, server.String(), "nvram")
	require.NoError(t, b.CreateNVRAM(t.Context(), in))
	build, err := firmware.Host{}.Of(in.Firmware, "")
	require.NoError(t, err)
	template, err := os.ReadFile(build.Vars)
	require.NoError(t, err)
	requireFile(t, path, string(template))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, os.WriteFile(path, []byte("the guest's"), 0o600))
	require.NoError(t, b.CreateNVRAM(t.Context(), in))
	requireFile(t, path, "the guest's")
	copied := in
	copied.File, copied.Of = "nvram.0a1b2c3d", "nvram"
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), ".nvram.0a1b2c3d.new"), []byte("half made"), 0o600))
	require.NoError(t, b.CreateNVRAM(t.Context(), copied))
	requireFile(t, path+".0a1b2c3d", "the guest's")
	require.Len(t, b.files(t), 3, "with their folder")

	seen, err := b.Seen(t.Context(), compute.SeenInput{})
	require.NoError(t, err)
	require.Equal(t, []compute.Seen{
		{Kind: compute.ThingDiskFile, Name: server.String() + "/nvram"}, {Kind: compute.ThingDiskFile, Name: server.String() + "/nvram.0a1b2c3d"},
	}, seen.Seen)
	for _, s := range seen.Seen {
		require.NoError(t, b.Remove(t.Context(), compute.Removal{Thing: compute.Thing{Kind: s.Kind, Name: s.Name, Owner: compute.ServerOwner(server)}}))
	}
	require.Empty(t, b.files(t))

	require.Equal(t, compute.Corrupt, compute.KindOf(b.CreateNVRAM(t.Context(), copied)), "what it is to be a copy of is missing")
	for _, name := range []string{"disk", "../nvram", "nvram/x", "nvramx"} {
		wrong := in
		wrong.File = name
		require.Equal(t, compute.Invalid, compute.KindOf(b.CreateNVRAM(t.Context(), wrong)), name)
	}
	sized := in
	sized.Bytes = 11
	err = b.CreateNVRAM(t.Context(), sized)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "a guest brings others than any firmware here reads")
	require.ErrorContains(t, err, "its UEFI variables have 11 bytes")
	b.Firmware.Dir = t.TempDir()
	require.Equal(t, compute.NoHost, compute.KindOf(b.CreateNVRAM(t.Context(), in)))
}

// Variables that are missing, or that the new host's firmware does not read, are noticed before a guest is stopped
// for its move.
func TestCheckUEFIVariables(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := os.Stat(firmware.Folder); err != nil && os.Getenv("CI") == "" {
		t.Skip("needs the package ovmf")
	}
	server := compute.ServerID{UUID: uuid.New()}
	check := func() (disk.CheckMoveResult, error) {
		return b.CheckMove(t.Context(), disk.CheckMoveInput{Server: server, NVRAM: "nvram"})
	}
	_, err := check()
	require.Equal(t, compute.Corrupt, compute.KindOf(err))
	require.ErrorContains(t, err, "its UEFI variables are missing")
	want := compute.Firmware{UEFI: true, SecureBoot: compute.SecureBootRequired}
	require.NoError(t, b.CreateNVRAM(t.Context(), disk.NVRAMInput{Server: server, File: "nvram", Firmware: want}))
	got, err := check()
	require.NoError(t, err)
	build, err := firmware.Host{}.Of(want, "")
	require.NoError(t, err)
	require.Equal(t, disk.CheckMoveResult{NVRAMBytes: build.Bytes}, got)

	come := func(bytes int64) error {
		return b.CheckRoom(t.Context(), disk.CheckRoomInput{Server: server, NVRAM: &disk.ComingNVRAM{Firmware: want, Bytes: bytes}})
	}
	require.NoError(t, come(build.Bytes))
	err = come(build.Bytes - 1)
	require.Equal(t, compute.NoHost, compute.KindOf(err), "another host may have such firmware")
	require.ErrorContains(t, err, server.String()+": its UEFI variables have ")

	path := filepath.Join(b.InstancesDir, server.String(), "nvram")
	require.NoError(t, os.Truncate(path, 0))
	_, err = check()
	require.Equal(t, compute.Corrupt, compute.KindOf(err))
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink(build.Vars, path))
	_, err = check()
	require.Equal(t, compute.Corrupt, compute.KindOf(err))
	_, err = b.CheckMove(t.Context(), disk.CheckMoveInput{Server: server, NVRAM: "../nvram"})
	require.Equal(t, compute.Invalid, compute.KindOf(err))
}

// hostObjects give variables to a real object store.
type hostObjects struct{ object.Store }

func (s hostObjects) Put(ctx context.Context, cred compute.Credential, name string, size int64, data io.ReaderAt) error {
	_, err := s.Store.Put(ctx, object.PutInput{Credential: cred, Name: name, Size: size}, data)
	return err
}

func (s hostObjects) Open(ctx context.Context, cred compute.Credential, name string) (io.ReadCloser, error) {
	return s.Store.Open(ctx, cred, name, 0)
}

// The variables of a server that is shelved come back from the object store byte for byte, once; what is not what was
// stored, or what no firmware of the host reads, does not come.
func TestUEFIVariablesInTheObjectStore(t *testing.T) {
	t.Parallel()
	a, b := setup(t), setup(t)
	if _, err := os.Stat(firmware.Folder); err != nil && os.Getenv("CI") == "" {
		t.Skip("needs the package ovmf")
	}
	store, err := local.Open(filepath.Join(t.TempDir(), "objects"))
	require.NoError(t, err)
	a.Objects, b.Objects = hostObjects{store}, hostObjects{store}
	server, cred := compute.ServerID{UUID: uuid.New()}, compute.Credential{ID: uuid.New(), ProjectID: project, UserID: "u"}
	want := compute.Firmware{UEFI: true, SecureBoot: compute.SecureBootRequired}
	save := disk.SaveNVRAMInput{Credential: cred, Server: server, File: "nvram", Object: compute.NVRAMObject(server, "req-1")}
	_, err = a.SaveNVRAM(t.Context(), save)
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "there are none")

	require.NoError(t, a.CreateNVRAM(t.Context(), disk.NVRAMInput{Server: server, File: "nvram", Firmware: want}))
	path := filepath.Join(a.InstancesDir, server.String(), "nvram")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	copy(data[len(data)/2:], "what the guest wrote")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	var saved disk.SaveNVRAMResult
	for range 2 {
		saved, err = a.SaveNVRAM(t.Context(), save)
		require.NoError(t, err)
	}
	sum := sha256.Sum256(data)
	require.Equal(t, disk.SaveNVRAMResult{SizeBytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}, saved)
	require.NoError(t, a.CheckExport(t.Context(), disk.CheckExportInput{Server: server, NVRAM: "nvram"}))
	require.NoError(t, os.Remove(path))
	require.Equal(t, compute.Corrupt, compute.KindOf(a.CheckExport(t.Context(), disk.CheckExportInput{Server: server, NVRAM: "nvram"})))

	restore := disk.RestoreNVRAMInput{
		Credential: cred, Server: server, File: "nvram.0a1b2c3d", Stored: compute.StoredNVRAM{Object: save.Object, SHA256: saved.SHA256}, Firmware: want,
	}
	for kind, spoil := range map[compute.Kind]func(*disk.RestoreNVRAMInput){
		compute.NotFound: func(in *disk.RestoreNVRAMInput) { in.Stored.Object += "0" },
		compute.Corrupt:  func(in *disk.RestoreNVRAMInput) { in.Stored.SHA256 = hex.EncodeToString(make([]byte, 32)) },
		compute.NoHost:   func(in *disk.RestoreNVRAMInput) { in.Machine = compute.MachinePC },
		compute.Invalid:  func(in *disk.RestoreNVRAMInput) { in.File = "disk" },
	} {
		in := restore
		spoil(&in)
		require.Equal(t, kind, compute.KindOf(b.RestoreNVRAM(t.Context(), in)))
		require.NoFileExists(t, filepath.Join(b.InstancesDir, server.String(), in.File))
	}
	require.NoError(t, b.RestoreNVRAM(t.Context(), restore))
	there := filepath.Join(b.InstancesDir, server.String(), "nvram.0a1b2c3d")
	requireFile(t, there, string(data))
	info, err := os.Stat(there)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, os.WriteFile(there, []byte("the guest's"), 0o600))
	require.NoError(t, b.RestoreNVRAM(t.Context(), restore), "it may run by now")
	requireFile(t, there, "the guest's")
}

func requireFile(t *testing.T, path, text string) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, sha256.Sum256([]byte(text)), sha256.Sum256(got), path)
}
