package metadata_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/compute/metadata"
)

var update = flag.Bool("update", false, "write the golden files")

// zeros are the random numbers of golden files.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func id(last byte) uuid.UUID {
	u := uuid.MustParse("11111111-2222-4333-8444-555555555500")
	u[15] = last
	return u
}

// vault is a server with everything that a guest can be shown.
func vault() metadata.Server {
	disk := func(last byte, role compute.DiskRole, name, tag string, encrypted bool) metadata.Disk {
		return metadata.Disk{Tag: tag, Disk: compute.Disk{
			ID: compute.DiskID{UUID: id(last)}, Role: role, DeviceName: name, Bus: "virtio", Encrypted: encrypted,
		}}
	}
	image := compute.ImageID{UUID: id(9)}
	return metadata.Server{
		ID: compute.ServerID{UUID: id(1)}, Number: 26, ProjectID: "0123456789abcdef0123456789abcdef", Name: "Vault <1>", Hostname: "vault-1",
		LaunchIndex: 1, Zone: "nova", Reservation: "r-abcdefgh", Flavor: "safe", Image: &image,
		Metadata: map[string]string{"role": "safe"}, KeyName: "mine", PublicKey: "ssh-ed25519 AAAA me",
		UserData: []byte("#!/bin/sh\necho hello\n"),
		Networks: []compute.Network{
			{UUID: id(7).String(), MAC: "52:54:00:00:00:01"}, {UUID: id(8).String(), MAC: "52:54:00:00:00:02", Tag: "backend"},
		},
		Disks: []metadata.Disk{
			disk(2, compute.RootDisk, "/dev/vda", "", true),
			disk(3, compute.EphemeralDisk, "/dev/vdb", "scratch", true),
			disk(4, compute.SwapDisk, "/dev/vdc", "", true),
		},
	}
}

// plain is a server with nothing that it need not have.
func plain() metadata.Server {
	s := vault()
	s.Metadata, s.KeyName, s.PublicKey, s.UserData, s.Networks = nil, "", "", nil, nil
	s.Disks = s.Disks[:2]
	for i := range s.Disks {
		s.Disks[i].Encrypted = false
	}
	return s
}

func look(t *testing.T, s metadata.Server, path string) string {
	t.Helper()
	got, err := s.Lookup(path, zeros{})
	require.NoError(t, err, path)
	return string(got.Body)
}

// TestEveryDocument compares all documents of two servers with golden files:
// with EE-32 in those of the encrypted one.
func TestEveryDocument(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]metadata.Server{"vault": vault(), "plain": plain()} {
		var all strings.Builder
		for _, root := range []string{"/openstack", "/ec2"} {
			for _, version := range strings.Split(look(t, s, root), "\n") {
				walk(t, s, root+"/"+version, &all)
			}
		}
		text := strings.ReplaceAll(all.String(), base64.StdEncoding.EncodeToString(make([]byte, 512)), "SEED")
		golden := filepath.Join("testdata", name+".txt")
		if *update {
			require.NoError(t, os.WriteFile(golden, []byte(text), 0o644))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), text)
	}
}

// walk writes what is under a path and below it.
func walk(t *testing.T, s metadata.Server, path string, to *strings.Builder) {
	t.Helper()
	body := look(t, s, path)
	to.WriteString(path + "\n\t" + strings.ReplaceAll(body, "\n", "\n\t") + "\n")
	if depth := strings.Count(path, "/"); strings.HasPrefix(path, "/openstack") && depth > 2 {
		return
	}
	for _, name := range strings.Split(body, "\n") {
		name, _, _ = strings.Cut(name, "=") // a key: 0=name
		below := path + "/" + strings.TrimSuffix(name, "/")
		if name == "" || strings.HasSuffix(path, "/"+name) || len(name) > 40 {
			continue
		}
		if _, err := s.Lookup(below, zeros{}); err == nil {
			walk(t, s, below, to)
		}
	}
}

// devices gives those of meta_data.json.
func devices(t *testing.T, s metadata.Server, version string) []map[string]any {
	t.Helper()
	var got struct {
		Devices []map[string]any `json:"devices"`
	}
	require.NoError(t, json.Unmarshal([]byte(look(t, s, "/openstack/"+version+"/meta_data.json")), &got))
	return got.Devices
}

// TestEncryptedDisksSaySo (EE-32): tagged or not, with path, serial, bus and
// address; a disk that is not encrypted never does.
func TestEncryptedDisksSaySo(t *testing.T) {
	t.Parallel()
	got := devices(t, vault(), "latest")
	require.Len(t, got, 4)
	require.Equal(t, map[string]any{
		"type": "disk", "bus": "pci", "address": "0000:00:10.0", "serial": "11111111-2222-4333-8", "path": "/dev/vda", "encrypted": "True",
	}, got[1])
	require.Equal(t, []any{"scratch"}, got[2]["tags"])
	require.Equal(t, "True", got[2]["encrypted"])
	require.Equal(t, "True", got[3]["encrypted"])

	got = devices(t, plain(), "latest")
	require.Len(t, got, 1, "the tagged one")
	require.NotContains(t, got[0], "encrypted")
	require.Empty(t, devices(t, vault(), "2015-10-15"), "before there were devices")
}

func TestTheSeedIsAnotherEachTime(t *testing.T) {
	t.Parallel()
	s := vault()
	seed := func(from io.Reader) string {
		got, err := s.Lookup("/openstack/latest/meta_data.json", from)
		require.NoError(t, err)
		var m struct {
			Seed []byte `json:"random_seed"`
		}
		require.NoError(t, json.Unmarshal(got.Body, &m))
		require.Len(t, m.Seed, 512)
		return string(m.Seed)
	}
	from := strings.NewReader(strings.Repeat("a", 512) + strings.Repeat("b", 512))
	first := seed(from)
	require.NotEqual(t, first, seed(from))
	_, err := s.Lookup("/openstack/latest/meta_data.json", iotest.ErrReader(errors.New("no entropy")))
	require.Error(t, err)
	_, err = s.Drive(iotest.ErrReader(errors.New("no entropy")))
	require.Error(t, err)
}

func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/openstack/2011-01-01", "/openstack/latest/nothing", "/openstack/latest/password", "/openstack/latest/meta_data.json/more",
		"/openstack/2012-08-10/vendor_data.json", "/ec2/1999-01-01", "/latest/meta-data/nothing", "/latest/meta-data/hostname/more",
		"/1.0/meta-data/placement", "/latest/meta-data/public-keys/0/_name", "/nothing", "/openstack/../ec2/nothing",
	} {
		_, err := vault().Lookup(path, zeros{})
		require.True(t, compute.Is(err, compute.NotFound), path)
	}
	_, err := plain().Lookup("/openstack/latest/user_data", zeros{})
	require.True(t, compute.Is(err, compute.NotFound))
	_, err = plain().Lookup("/latest/meta-data/public-keys", zeros{})
	require.True(t, compute.Is(err, compute.NotFound))
}

func TestPathsAreReadAsNovaReadsThem(t *testing.T) {
	t.Parallel()
	s := vault()
	require.Equal(t, string(metadata.Root().Body), look(t, s, "/"))
	require.Equal(t, look(t, s, "/ec2"), look(t, s, ""))
	require.Equal(t, "vault-1", look(t, s, "/latest/meta-data/hostname"))
	require.Equal(t, "vault-1", look(t, s, "//ec2/2009-04-04/meta-data/hostname/"))
	require.Equal(t, "meta-data/\nuser-data", look(t, s, "/latest/"))
	require.Equal(t, "0=mine", look(t, s, "/latest/meta-data/public-keys/"))
	require.Equal(t, "openssh-key", look(t, s, "/latest/meta-data/public-keys/0/"))
	require.Equal(t, s.PublicKey, look(t, s, "/latest/meta-data/public-keys/0/openssh-key"))
	x509 := s
	x509.PublicKey = "-----BEGIN CERTIFICATE-----\n"
	require.Contains(t, look(t, x509, "/openstack/latest/meta_data.json"), `"type":"x509"`)
}

// K18: a guest reads the security groups of its ports as its user calls them, and by their ids those that were changed since.
func TestK18SecurityGroupsAreThoseOfThePorts(t *testing.T) {
	t.Parallel()
	const path = "/latest/meta-data/security-groups"
	s := vault()
	require.Equal(t, "default", look(t, s, path))
	web, other := compute.SecurityGroupID{UUID: id(20)}, compute.SecurityGroupID{UUID: id(21)}
	s.Networks[0].Port = &compute.Port{Groups: []compute.SecurityGroupID{web}, GroupNames: []string{"web"}}
	require.Equal(t, "web", look(t, s, path), "nobody looked yet")
	s.Networks[0].Port.Secured = []compute.SecurityGroupID{web}
	s.Networks[1].Port = &compute.Port{Secured: []compute.SecurityGroupID{{UUID: id(22)}}}
	require.Equal(t, "default\nweb", look(t, s, path))
	s.Networks[1].Port.Secured = []compute.SecurityGroupID{other, web}
	require.Equal(t, other.String()+"\nweb", look(t, s, path))
	for i := range s.Networks {
		s.Networks[i].Port.Secured = []compute.SecurityGroupID{}
	}
	require.Empty(t, look(t, s, path), "they have none")
}

// TestTheDriveHasWhatTheServiceHas, of every version of OpenStack.
func TestTheDriveHasWhatTheServiceHas(t *testing.T) {
	t.Parallel()
	s := vault()
	files, err := s.Drive(zeros{})
	require.NoError(t, err)
	n := 0
	for _, version := range strings.Split(look(t, s, "/openstack"), "\n") {
		for _, name := range strings.Split(look(t, s, "/openstack/"+version), "\n") {
			path := "openstack/" + version + "/" + name
			require.Equal(t, look(t, s, path), string(files[path]), path)
			n++
		}
	}
	require.Len(t, files, n+4)
	require.Equal(t, s.UserData, files["ec2/latest/user-data"])
	require.True(t, json.Valid(files["ec2/2009-04-04/meta-data.json"]))
}

// TestAsAnOperationBootsIt: disks that are not on record yet, each with the tag of
// its place.
func TestAsAnOperationBootsIt(t *testing.T) {
	t.Parallel()
	s := vault()
	plan := compute.Server{Flavor: compute.Flavor{Name: "larger"}, Image: compute.Image{ID: compute.ImageID{UUID: id(20)}}}
	for i, d := range s.Disks[:2] {
		d.ID, d.Encrypted = compute.DiskID{UUID: id(byte(0xa0 + i))}, false
		plan.Disks = append(plan.Disks, d.Disk)
	}
	plan.Disks[0].ID.UUID[0] = 0xff
	got := s.As(plan)
	require.Len(t, got.Disks, 2)
	require.Equal(t, "scratch", got.Disks[1].Tag)
	require.Len(t, devices(t, got, "latest"), 2, "an interface and the tagged disk")
	require.Equal(t, "larger", look(t, got, "/latest/meta-data/instance-type"))
	require.Equal(t, "ami-11111111", look(t, got, "/latest/meta-data/ami-id"))
	require.Len(t, s.Disks, 3)
	plan.Disks[0].Encrypted = true
	require.Equal(t, "ff111111-2222-4333-8", devices(t, s.As(plan), "latest")[1]["serial"])
}

// A server that is rescued reads where its disks are meanwhile, by the tags that
// they always have.
func TestRescued(t *testing.T) {
	t.Parallel()
	s := metadata.Server{Disks: []metadata.Disk{
		{Disk: compute.Disk{Role: compute.RescueDisk, DeviceName: "/dev/vda", Bus: "virtio"}},
		{Disk: compute.Disk{Role: compute.RootDisk, DeviceName: "/dev/vda", Bus: "virtio", Encrypted: true}, Tag: "system"},
		{Disk: compute.Disk{Role: compute.EphemeralDisk, DeviceName: "/dev/vdb", Bus: "virtio"}, Tag: "data"},
	}}
	var got []string
	for _, d := range s.Attached().Disks {
		got = append(got, string(d.Role)+" "+d.DeviceName+" "+d.PCIAddress()+" "+d.Tag)
	}
	require.Equal(t, []string{"rescue /dev/vda 0000:00:10.0 ", "root /dev/vdb 0000:00:11.0 system", "ephemeral /dev/vdc 0000:00:12.0 data"}, got)
}
