package integration_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/guest"
)

const userData = "#!/bin/sh\necho what only the guest may know\n"

// driven asks for a config drive.
func driven(o *servers.CreateOpts) {
	yes := true
	o.ConfigDrive, o.UserData, o.Metadata = &yes, []byte(userData), map[string]string{"role": "vault"}
}

// metadata asks the metadata service as Neutron's agent does, for a server.
func (c *testCloud) metadata(t *testing.T, s *servers.Server, path string) (int, string) {
	t.Helper()
	secret, err := os.ReadFile(c.MetadataSecret())
	require.NoError(t, err)
	mac := hmac.New(sha256.New, bytes.TrimSpace(secret))
	mac.Write([]byte(s.ID))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.MetadataAddr()+path, nil)
	require.NoError(t, err)
	for name, value := range map[string]string{
		"X-Instance-ID": s.ID, "X-Tenant-ID": s.TenantID, "X-Forwarded-For": "10.0.0.7",
		"X-Instance-ID-Signature": hex.EncodeToString(mac.Sum(nil)),
	} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

// cat gives a file of the guest.
func (s *serial) cat(file string) string {
	s.t.Helper()
	text, err := guest.ReadFile(s.ask, file)
	require.NoError(s.t, err)
	return text
}

// knows gives what meta_data.json says, but for the seed, which is another one at
// every reading.
func knows(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &m), text)
	require.Len(t, m["random_seed"], 684)
	delete(m, "random_seed")
	return m
}

// tells requires that service and config drive say the same of a server, and that
// its disks are where they say, and gives its id as they say it.
func (c *testCloud) tells(t *testing.T, server *servers.Server, line *serial, role string) any {
	t.Helper()
	code, served := c.metadata(t, server, "/openstack/latest/meta_data.json")
	require.Equal(t, http.StatusOK, code)
	t.Log(served)
	told := knows(t, served)
	require.Equal(t, told, knows(t, line.cat("/config/openstack/latest/meta_data.json")))
	require.Equal(t, map[string]any{"role": role}, told["meta"])

	var meta struct {
		Devices []struct{ Address, Serial, Path, Encrypted string }
	}
	require.NoError(t, json.Unmarshal([]byte(served), &meta))
	require.Len(t, meta.Devices, 3)
	for _, d := range meta.Devices {
		require.Equal(t, "True", d.Encrypted)
		name := filepath.Base(d.Path)
		require.Equal(t, d.Serial, line.cat("/sys/block/"+name+"/serial"))
		require.Contains(t, line.ask("link /sys/block/"+name, "TG link "), fmt.Sprintf("/pci0000:00/%s/", d.Address))
	}
	return told["uuid"]
}

// EE-32: a guest reads from its config drive what the metadata service says of it,
// and finds its disks where they say, encrypted. The drive lies encrypted on its
// host, no workflow knows what is on it, each boot brings it up to date, and nothing
// of it is left.
func TestAGuestKnowsItself(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	id := c.create(t, encryptedTPM, driven)
	server := c.becomes(t, id, "ACTIVE")
	require.True(t, server.ConfigDrive)
	c.console(t, id, "TG ready", 1)
	line := c.serial(t, id)
	require.Contains(t, line.ask("config", "TG config "), "err=<nil>")
	require.Equal(t, userData, line.cat("/config/openstack/latest/user_data"))
	code, served := c.metadata(t, server, "/openstack/latest/user_data")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, userData, served)
	require.Equal(t, id, c.tells(t, server, line, "vault"))

	onHost, err := os.ReadFile(filepath.Join(c.Instances(), id, compute.ConfigDriveFile))
	require.NoError(t, err)
	require.False(t, bytes.Contains(onHost, []byte("only the guest")))
	require.Empty(t, c.audit(t).Findings)

	// The drive of the next boot has what was changed meanwhile.
	client := c.compute(t, "-demo")
	_, err = servers.UpdateMetadata(t.Context(), client, id, servers.MetadataOpts{"role": "cellar"}).Extract()
	require.NoError(t, err)
	require.NoError(t, servers.Reboot(t.Context(), client, id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 2)
	line = c.serial(t, id)
	require.Contains(t, line.ask("config", "TG config "), "err=<nil>")
	c.tells(t, server, line, "cellar")

	// A rebuilt one has other disks, and what the rebuild changed.
	_, err = servers.Rebuild(t.Context(), client, id, servers.RebuildOpts{ImageRef: c.image, Metadata: map[string]string{"role": "attic"}}).Extract()
	require.NoError(t, err)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 3)
	line = c.serial(t, id)
	require.Contains(t, line.ask("config", "TG config "), "err=<nil>")
	require.Equal(t, userData, line.cat("/config/openstack/latest/user_data"))
	c.tells(t, server, line, "attic")
	require.Empty(t, c.audit(t).Findings)

	c.delete(t, id)
	c.nothingIsLeft(t)
	require.NoDirExists(t, filepath.Join(c.Instances(), id))
	require.NoDirExists(t, "/dev/shm/strongroom-"+id)
	code, _ = c.metadata(t, server, "/openstack/latest/meta_data.json")
	require.Equal(t, http.StatusNotFound, code)
	histories(t, c, func(workflow string, text []byte) {
		require.False(t, bytes.Contains(text, []byte("only the guest")), workflow)
	})
}

// A host's worker is killed before and after it makes the config drive: the create
// completes, and an undone one leaves nothing.
func TestKillMatrixConfigDrive(t *testing.T) {
	backends(t, local, openStack)
	eachPoint(t, cutsOf("config drive", []string{"disk.CreateConfigDrive"}), func(t *testing.T, c *testCloud, point string) {
		c.arm(t, point)
		id := c.createIdle(t, encryptedTIS, driven)
		s := c.settled(t, id)
		require.Equal(t, "ACTIVE", s.Status, "a worker that comes back completes the create; fault: %s", s.Fault.Message)
		c.nothingIsLeft(t)
		c.delete(t, id)
		c.nothingIsLeft(t)
		require.NoDirExists(t, "/dev/shm/strongroom-"+id)

		c.arm(t, point)
		id = c.createIdle(t, encryptedTIS, driven)
		c.reaches(t, id, "start_domain")
		c.delete(t, id)
		c.nothingIsLeft(t)
		require.NoDirExists(t, "/dev/shm/strongroom-"+id)
	})
}
