package integration_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain/keyring"
	"strongroom/compute"
	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
)

// remains is what a host has of a server.
type remains struct {
	Domain  string // libvirt's definition; "" without one
	Running bool
	Secrets int   // that libvirt knows
	Kept    int   // of its keys, in the kernel's keyring
	Disks   files // the server's folder
	TPM     files // the state of its TPM
}

// files are those of a folder, by their paths in it; nil where there is no folder.
type files map[string]file

// state are those in which swtpm keeps a TPM's state. Its lock is none of it, nor is what
// strongroom notes of a state that was not started yet.
func (f files) state() files {
	out := files{}
	for name, has := range f {
		if dir, inside, _ := strings.Cut(name, "/"); strings.HasPrefix(dir, "tpm") && inside != ".lock" {
			out[name] = has
		}
	}
	return out
}

type file struct {
	Mode     fs.FileMode
	UID, GID uint32
	SHA256   string // of a regular file
}

// remains looks at what a host that is on has of a server, once its libvirtd answers.
func (c *testCloud) remains(t *testing.T, h stack.Host, id string) remains {
	t.Helper()
	out := c.remainsOnDisk(t, h, id)
	var err error
	await.For(t, fmt.Sprintf("the libvirtd of host %d answers", h.Number), func() bool { // it may have been killed a moment ago
		out.Secrets, err = h.HypervisorSecrets(t.Context(), id)
		return err == nil
	}, c.hostProgress(h))
	out.Kept = len(c.kept(t, h, id))
	conn := libvirt.NewWithDialer(hypervisor{h})
	require.NoError(t, conn.Connect())
	defer func() { _ = conn.Disconnect() }()
	domain, err := conn.DomainLookupByUUID(libvirt.UUID(uuid.MustParse(id)))
	if libvirt.IsNotFound(err) {
		return out
	}
	require.NoError(t, err)
	text, err := conn.DomainGetXMLDesc(domain, libvirt.DomainXMLInactive)
	var state int32
	if err == nil {
		state, _, err = conn.DomainGetState(domain, 0)
	}
	if libvirt.IsNotFound(err) { // it goes at this moment
		return out
	}
	require.NoError(t, err)
	out.Domain = text
	out.Running = libvirt.DomainState(state) != libvirt.DomainShutoff
	return out
}

// kept gives the secrets of a server whose keys a host keeps.
func (c *testCloud) kept(t *testing.T, h stack.Host, id string) []compute.SecretID {
	t.Helper()
	var settings struct {
		Host struct {
			IDFile string `yaml:"id_file"`
		}
	}
	readYAML(t, h.ConfigFile(), &settings)
	text, err := os.ReadFile(settings.Host.IDFile)
	require.NoError(t, err)
	all, err := keyring.Of(compute.HostID{UUID: uuid.MustParse(strings.TrimSpace(string(text)))}).Kept()
	require.NoError(t, err)
	return all[compute.ServerID{UUID: uuid.MustParse(id)}]
}

// remainsOnDisk looks at what a host has of a server that also one that is off has.
func (c *testCloud) remainsOnDisk(t *testing.T, h stack.Host, id string) remains {
	t.Helper()
	out := remains{Disks: filesOf(t, filepath.Join(h.Instances(), id)), TPM: filesOf(t, filepath.Join(h.SwtpmDir(), id))}
	delete(out.TPM, ".strongroom-shown") // the last move's note for the host that it went to
	return out
}

// hasNothingSoon waits until nothing of a server is on a host that is on.
func (c *testCloud) hasNothingSoon(t *testing.T, h stack.Host, id string) {
	t.Helper()
	var has remains
	_ = await.Until("it goes", func() bool {
		has = c.remains(t, h, id)
		return reflect.DeepEqual(remains{}, has)
	}, await.Witness{Name: "remains", Look: func() string {
		return fmt.Sprintf("domain: %v, runs: %v, %d secrets, %d keys, %d files of disks, %d of its TPM", has.Domain != "", has.Running, has.Secrets, has.Kept, len(has.Disks), len(has.TPM))
	}}, c.hostProgress(h))
	c.hasNothing(t, h, id)
}

// hasNothing requires that nothing of a server is on a host that is on.
func (c *testCloud) hasNothing(t *testing.T, h stack.Host, id string) {
	t.Helper()
	require.Equal(t, remains{}, c.remains(t, h, id), invariant+"what %s has of server %s", hostName(t, h), id)
}

func filesOf(t *testing.T, dir string) files {
	t.Helper()
	var out files
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		require.True(t, ok)
		f := file{Mode: info.Mode(), UID: owner.Uid, GID: owner.Gid}
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(data)
			f.SHA256 = hex.EncodeToString(sum[:])
		}
		name, err := filepath.Rel(dir, path)
		if out == nil {
			out = files{}
		}
		out[name] = f
		return err
	})
	if !errors.Is(err, fs.ErrNotExist) { // there is none, or a file went while it was looked at
		require.NoError(t, err)
	}
	return out
}

type hypervisor struct{ host stack.Host }

func (h hypervisor) Dial() (net.Conn, error) {
	return net.DialTimeout("unix", h.host.LibvirtSocket(), time.Minute)
}
