package disk_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/compute/metadata"
)

const userData = "#!/bin/sh\necho what only this guest may know\n"

// guest puts a server onto the record.
func (b *testBundle) guest() metadata.Server {
	s := metadata.Server{
		ID: newServer(), Number: 7, ProjectID: "p1", Name: "vault", Hostname: "vault", Zone: "nova", Flavor: "safe",
		KeyName: "mine", PublicKey: "ssh-ed25519 AAAA me", UserData: []byte(userData),
		Networks: []compute.Network{{UUID: newServer().String(), MAC: "52:54:00:00:00:01"}},
		Disks: []metadata.Disk{{Disk: compute.Disk{
			ID: newDisk(), Role: compute.RootDisk, DeviceName: "/dev/vda", Bus: "virtio", Encrypted: true,
		}}},
	}
	b.guests[s.ID] = s
	return s
}

// drive asks for the config drive of a server whose root disk a key opens, nil for
// one that is not encrypted.
func drive(s metadata.Server, key *compute.SecretID) disk.ConfigDriveInput {
	out := disk.ConfigDriveInput{Server: compute.Server{ID: s.ID, Flavor: compute.Flavor{Name: s.Flavor}}}
	for _, d := range s.Disks {
		d.Encrypted, d.Secret = key != nil, key
		out.Server.Disks = append(out.Server.Disks, d.Disk)
	}
	return out
}

func (b *testBundle) configDrive(id compute.ServerID) string {
	return filepath.Join(b.InstancesDir, id.String(), compute.ConfigDriveFile)
}

// decrypted gives what a LUKS container holds.
func decrypted(t *testing.T, path, passphrase string) string {
	t.Helper()
	plain := filepath.Join(t.TempDir(), "plain")
	_, err := disk.Exec{}.Run(t.Context(), disk.Command{Name: "qemu-img", Passphrases: []*secret.Passphrase{secret.New([]byte(passphrase))}, Args: []string{
		"convert", "-O", "raw", "--object", "secret,id=k,file=/dev/fd/3", "--image-opts", "driver=luks,key-secret=k,file.filename=" + path, plain}})
	require.NoError(t, err)
	return plain
}

// needs skips a test without a program; in CI that is a failure.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") == "" {
		t.Skipf("needs %s", program)
	}
}

// unpack reads a config drive with another program than the one that made it, by
// the names of Unix ("-R") or of Windows ("-J"), into a folder.
func unpack(t *testing.T, iso, names string) string {
	t.Helper()
	needs(t, "isoinfo")
	dir := t.TempDir()
	list, err := exec.Command("isoinfo", names, "-f", "-i", iso).Output()
	require.NoError(t, err)
	for _, name := range strings.Fields(string(list)) {
		path := filepath.Join(dir, name)
		if strings.Contains(string(list), name+"/") {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		body, err := exec.Command("isoinfo", names, "-x", name, "-i", iso).Output()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, body, 0o644))
	}
	return dir
}

// TestConfigDriveHoldsTheMetadata: the whole tree, for Unix and for Windows alike.
func TestConfigDriveHoldsTheMetadata(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.guest()
	for range 2 { // the second one replaces the first
		require.NoError(t, b.CreateConfigDrive(t.Context(), drive(s, nil)))
	}
	require.Equal(t, []string{s.ID.String(), s.ID.String() + "/disk.config"}, b.files(t))
	left, err := os.ReadDir(b.MemoryDir)
	require.NoError(t, err)
	require.Empty(t, left)
	info, err := os.Stat(b.configDrive(s.ID))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Zero(t, info.Size()%2048)

	want, err := s.As(drive(s, nil).Server).Drive(rand.Reader)
	require.NoError(t, err)
	for _, names := range []string{"-R", "-J"} {
		dir := unpack(t, b.configDrive(s.ID), names)
		for name, body := range want {
			got, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err, "%s %s", names, name)
			if strings.HasSuffix(name, "/meta_data.json") { // with a seed of its own
				require.True(t, json.Valid(got))
				continue
			}
			require.Equal(t, string(body), string(got), name)
		}
	}
	out, err := exec.Command("isoinfo", "-d", "-i", b.configDrive(s.ID)).Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "Volume id: config-2")
}

// TestCloudInitReadsTheConfigDrive (EE-32): the program that reads it in real guests.
func TestCloudInitReadsTheConfigDrive(t *testing.T) {
	t.Parallel()
	needs(t, "cloud-init")
	b := setup(t)
	s := b.guest()
	key, passphrase := b.secret(t)
	require.NoError(t, b.CreateConfigDrive(t.Context(), drive(s, key)))
	dir := unpack(t, decrypted(t, b.configDrive(s.ID), passphrase), "-R")
	cmd := exec.Command("/usr/bin/python3", "testdata/read_config_drive.py", dir, s.Networks[0].MAC)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	require.NoError(t, err)
	require.JSONEq(t, `{
		"instance_id": "`+s.ID.String()+`", "hostname": "vault", "keys": {"mine": "ssh-ed25519 AAAA me"}, "seed": 512,
		"devices": [{"type": "disk", "bus": "pci", "address": "0000:00:10.0", "serial": "`+s.Disks[0].Serial()+`",
			"path": "/dev/vda", "encrypted": "True"}],
		"user_data": "#!/bin/sh\necho what only this guest may know\n", "vendor_data": {}, "root": "/dev/vda",
		"interfaces": [["eth0", "52:54:00:00:00:01", ["dhcp4"]]]
	}`, string(out))
}

// TestConfigDriveIsEncryptedLikeTheDisks: not a byte of user data lies on the host's
// disk, neither in the file nor beside it, and the key opens it.
func TestConfigDriveIsEncryptedLikeTheDisks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.guest()
	key, passphrase := b.secret(t)
	in := drive(s, key)
	require.NoError(t, b.CreateConfigDrive(t.Context(), in))
	sealed, err := os.ReadFile(b.configDrive(s.ID))
	require.NoError(t, err)
	for _, text := range []string{"what only this guest", "config-2", "CD001", passphrase} {
		require.False(t, bytes.Contains(sealed, []byte(text)), text)
	}
	plain := decrypted(t, b.configDrive(s.ID), passphrase)
	got, err := os.ReadFile(filepath.Join(unpack(t, plain, "-R"), "openstack/latest/user_data"))
	require.NoError(t, err)
	require.Equal(t, userData, string(got))

	// The key was changed: the next one opens with the new key alone.
	other, changed := b.secret(t)
	in.Server.Disks[0].Secret = other
	require.NoError(t, b.CreateConfigDrive(t.Context(), in))
	decrypted(t, b.configDrive(s.ID), changed)
}

func TestConfigDriveInParallel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.guest()
	key, passphrase := b.secret(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			require.NoError(t, b.CreateConfigDrive(t.Context(), drive(s, key)))
		})
	}
	all.Wait()
	decrypted(t, b.configDrive(s.ID), passphrase)
	require.Equal(t, []string{s.ID.String(), s.ID.String() + "/disk.config"}, b.files(t))
}

// TestConfigDriveAfterAKill: what an attempt left, in memory and beside the file,
// is gone with the next attempt or with the delete.
func TestConfigDriveAfterAKill(t *testing.T) {
	t.Parallel()
	for _, next := range []string{"create", "delete"} {
		b := setup(t)
		s := b.guest()
		scratch := filepath.Join(b.MemoryDir, "strongroom-"+s.ID.String())
		require.NoError(t, os.MkdirAll(filepath.Join(scratch, "openstack", "gone"), 0o700))
		dir := filepath.Dir(b.configDrive(s.ID))
		require.NoError(t, os.Mkdir(dir, 0o711))
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".disk.config.new"), []byte("half"), 0o600))
		found := b.seen(t, compute.ThingDiskFile)
		require.Equal(t, []string{s.ID.String() + "/disk.config"}, found)
		if next == "create" {
			require.NoError(t, b.CreateConfigDrive(t.Context(), drive(s, nil)))
			require.NoDirExists(t, filepath.Join(unpack(t, b.configDrive(s.ID), "-R"), "openstack", "gone"))
		}
		require.NoError(t, b.Remove(t.Context(), ofFile(s.ID, compute.ConfigDriveFile)))
		require.NoDirExists(t, scratch)
		require.Empty(t, b.files(t))
	}
}

func TestConfigDriveRefuses(t *testing.T) {
	t.Parallel()
	broken := compute.Errorf(compute.Corrupt, "broken on purpose")
	for name, c := range map[string]struct {
		kind  compute.Kind
		spoil func(*testBundle, *disk.ConfigDriveInput)
	}{
		"no server":      {compute.Invalid, func(_ *testBundle, in *disk.ConfigDriveInput) { in.Server.ID = compute.ServerID{} }},
		"unknown server": {compute.NotFound, func(_ *testBundle, in *disk.ConfigDriveInput) { in.Server.ID = newServer() }},
		"no key": {compute.Forbidden, func(_ *testBundle, in *disk.ConfigDriveInput) {
			in.Server.Disks[0].Encrypted, in.Server.Disks[0].Secret = true, &compute.SecretID{UUID: newServer().UUID}
		}},
		"no program": {compute.NoHost, func(b *testBundle, _ *disk.ConfigDriveInput) {
			b.runner.before = func(c *disk.Command) { c.Name = "no-such-" + c.Name }
		}},
		"program fails": {compute.Corrupt, func(b *testBundle, _ *disk.ConfigDriveInput) {
			b.runner.fail = func(disk.Command) error { return broken }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			in := drive(b.guest(), nil)
			c.spoil(b, &in)
			err := b.CreateConfigDrive(t.Context(), in)
			require.Equal(t, c.kind, compute.KindOf(err), "%v", err)
			left, err := os.ReadDir(b.MemoryDir)
			require.NoError(t, err)
			require.Empty(t, left)
			for _, f := range b.files(t) {
				require.NotContains(t, f, "disk.config")
			}
		})
	}
}
