package integration_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"strongroom/compute"
	"strongroom/deploy/dev/libvirtd/libvirttest"
	"strongroom/deploy/dev/stack"
)

// ofTPM is a small flavor with what it says of vTPMs.
func ofTPM(name string, specs map[string]string) flavorSpec {
	return flavorSpec{"e2e-tpm-" + name, 128, 1, 0, 0, specs}
}

// traitAlone needs a host with vTPMs, and asks for none.
var traitAlone = ofTPM("trait", map[string]string{"trait:COMPUTE_SECURITY_TPM_2_0": "required"})

// TPM-03, TPM-04, TPM-05, TPM-06, TPM-07: what flavor and image ask for together is looked at before anything is made: a model that
// the version has not, or without a version, and a flavor and an image that differ, are refused. The
// documents' spelling of a model is understood. An image asks as a flavor does. A trait alone makes no device.
func TestRequestsForVTPMs(t *testing.T) {
	backends(t, openStack, local)
	c := sharedCloud(t)
	asksOld, removeOld := c.guestAsking(t, asks12)
	defer removeOld()
	asksNew, removeNew := c.guestAsking(t, asksCRB)
	defer removeNew()
	for _, bad := range []struct {
		name, image string
		specs       map[string]string
		code        int
		says        string
	}{
		{"old-crb", c.idler, map[string]string{"hw:tpm_version": "1.2", "hw:tpm_model": "CRB"}, http.StatusBadRequest, "TPM model CRB is only valid with TPM version 2.0."},
		{"crb", asksOld, map[string]string{"hw:tpm_model": "tpm-crb"}, http.StatusBadRequest, "TPM model CRB is only valid with TPM version 2.0."},
		{"tis", c.idler, map[string]string{"hw:tpm_model": "tpm-tis"}, http.StatusBadRequest, "TPM model tpm-tis is requested without a TPM version."},
		{"new", asksOld, map[string]string{"hw:tpm_version": "2.0"}, http.StatusConflict, "conflicting with image asking which has hw_tpm_version explicitly set to 1.2."},
		{"new-tis", asksNew, map[string]string{"hw:tpm_version": "2.0", "hw:tpm_model": "TIS"}, http.StatusConflict, "which has hw_tpm_model explicitly set to tpm-crb."},
	} {
		_, err := c.tryCreateOf(t, "-demo", ofTPM(bad.name, bad.specs), bad.image)
		require.True(t, gophercloud.ResponseCodeIs(err, bad.code), "%s: %v", bad.name, err)
		require.ErrorContains(t, err, bad.says)
	}
	require.Empty(t, listed(t, c.compute(t, "-demo"), servers.ListOpts{Name: "testrequestsforvtpms"}))
	require.Empty(t, c.audit(t).Findings)

	id := c.createIdle(t, traitAlone)
	spelled := c.createIdle(t, ofTPM("documents", map[string]string{"hw:tpm_version": "2.0", "hw:tpm_model": "CRB"}))
	c.becomes(t, id, "ACTIVE")
	require.NotContains(t, c.remains(t, c.Host(1), id).Domain, "<tpm")
	require.Empty(t, c.keysOf(t, id))
	c.delete(t, id)
	c.becomes(t, spelled, "ACTIVE")
	c.requireTPM(t, spelled, compute.TPM20, compute.TPMCRB)
	c.delete(t, spelled)
	for image, model := range map[string]compute.TPMModel{asksOld: compute.TPMTIS, asksNew: compute.TPMCRB} {
		of := c.createOf(t, asked, image)
		c.becomes(t, of, "ACTIVE")
		c.requireTPM(t, of, map[string]compute.TPMVersion{asksOld: compute.TPM12, asksNew: compute.TPM20}[image], model)
		c.delete(t, of)
	}
}

// requireTPM requires that a server's domain has a vTPM of a kind, with the server's key.
func (c *testCloud) requireTPM(t *testing.T, id string, version compute.TPMVersion, model compute.TPMModel) {
	t.Helper()
	domain := c.remains(t, c.Host(1), id).Domain
	key := c.systemMetadata(t, id, compute.SystemTPMSecret)
	require.NotEmpty(t, key)
	for _, part := range []string{"<tpm model='" + string(model) + "'>", "<backend type='emulator' version='" + string(version) + "'", "<encryption secret='" + key + "'/>"} {
		require.Contains(t, domain, part)
	}
}

// settings is what changes a configuration file, which is YAML.
type settings struct {
	path  string
	was   []byte
	again func() // has what reads the file read it
}

// hostSettings are those of the first host, whose worker starts again with each change.
func (c *testCloud) hostSettings(t *testing.T) settings {
	t.Helper()
	return c.settingsOn(t, c.Host(1))
}

// settingsOn are those of a host, whose worker starts again with each change.
func (c *testCloud) settingsOn(t *testing.T, h stack.Host) settings {
	t.Helper()
	was, err := os.ReadFile(h.ConfigFile())
	require.NoError(t, err)
	return settings{h.ConfigFile(), was, func() { c.restartHost(t, h) }}
}

// with has some settings be others, by their sections; those that are nil are not said.
func (s settings) with(t *testing.T, others map[string]map[string]any) {
	t.Helper()
	all := map[string]map[string]any{}
	require.NoError(t, yaml.Unmarshal(s.was, &all))
	for section, values := range others {
		if all[section] == nil {
			all[section] = map[string]any{}
		}
		maps.Copy(all[section], values)
		maps.DeleteFunc(all[section], func(_ string, value any) bool { return value == nil })
	}
	text, err := yaml.Marshal(all)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.path, text, 0o600))
	s.again()
}

// restore has the settings be what they were.
func (s settings) restore(t *testing.T) {
	t.Helper()
	require.NoError(t, os.WriteFile(s.path, s.was, 0o600))
	s.again()
}

// tpmTraits are those of a host's traits that are about vTPMs.
func (c *testCloud) tpmTraits(t *testing.T) (names []string) {
	t.Helper()
	require.NoError(t, c.database(t).QueryRow(t.Context(),
		"SELECT coalesce(array_agg(n ORDER BY n), '{}') FROM hosts, unnest(traits) AS n WHERE name = $1 AND n LIKE 'COMPUTE_SECURITY_TPM_%'",
		hostName(t, c.Host(1))).Scan(&names))
	return names
}

// TPM-01, TPM-04, TPM-34, TPM-35: servers with a vTPM come only to hosts that offer one. Where the operator
// switched vTPMs off, and where libvirt or QEMU is too old for them, which the log of the host's worker says, the
// host has none of the traits, finds no server that needs them, and takes others as before. A host whose
// configuration does not say offers them.
func TestHostsThatOfferNoVTPM(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	socket := filepath.Join(c.dir, "relay")
	relay := libvirttest.Listen(t, socket, c.Host(1).LibvirtSocket())
	host := c.hostSettings(t)
	defer host.restore(t)
	for _, no := range []struct {
		name          string
		libvirt, qemu uint64
		enabled       any
		says          string
	}{
		{"switched off", 0, 0, false, ""},
		{"QEMU is too old", 0, 2_010_002, nil, `msg="servers can have no vTPM on this host" reason="QEMU is 2.10.2, vTPMs need 2.11.0"`},
		{"libvirt is too old", 8_008_000, 0, nil, `msg="servers can have no vTPM on this host" reason="libvirt is 8.8.0, vTPMs need 8.9.0"`},
	} {
		t.Run(no.name, func(t *testing.T) {
			relay.Claim(no.libvirt)
			relay.ClaimQEMU(no.qemu)
			host.with(t, map[string]map[string]any{"host": {"libvirt_socket": socket, "swtpm_enabled": no.enabled}})
			require.Empty(t, c.tpmTraits(t))
			log, err := os.ReadFile(c.LogFile("host"))
			require.NoError(t, err)
			require.Contains(t, string(log), no.says)
			for _, needs := range []flavorSpec{tpmAlone, traitAlone} {
				id := c.createIdle(t, needs)
				s := c.becomes(t, id, "ERROR")
				require.Equal(t, "No valid host was found. There are not enough hosts available.", s.Fault.Message)
				c.nothingIsLeft(t)
				c.delete(t, id)
			}
			other := c.createIdle(t, encrypted)
			c.becomes(t, other, "ACTIVE")
			c.delete(t, other)
		})
	}
	relay.Claim(0)
	relay.ClaimQEMU(0)
	host.with(t, map[string]map[string]any{"host": {"libvirt_socket": socket, "swtpm_enabled": nil}})
	require.Equal(t, []string{
		compute.TraitTPM12, compute.TraitTPM20, compute.TraitTPMCRB, compute.TraitTPMDeployment, compute.TraitTPMHost, compute.TraitTPMUser, compute.TraitTPMTIS,
	}, c.tpmTraits(t))
	id := c.createIdle(t, tpmAlone)
	c.becomes(t, id, "ACTIVE")
	c.requireTPM(t, id, compute.TPM20, compute.TPMTIS)
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// TPM-35, TPM-42: there is a guide for users and one for operators, which says the switch and its default as
// the shipped example has them, and the feature support matrix has each operation. (Its table of every option: TestEE49OneTableOfVTPMs.)
func TestGuidesForVTPMs(t *testing.T) {
	backends(t, openStack, local) // it reads files
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join("..", path))
		require.NoError(t, err)
		return string(text)
	}
	users, operators, found := strings.Cut(read("docs/vtpm.md"), "\n## For operators\n")
	require.True(t, found)
	require.Contains(t, users, "\n## For users\n")
	for _, said := range []string{"hw:tpm_version", "hw_tpm_version", "hw:tpm_model", "hw_tpm_model", "hw:tpm_secret_security", "`1.2`, `2.0`", "else 409"} {
		require.Contains(t, users, said)
	}
	var example struct{ Host map[string]any }
	require.NoError(t, yaml.Unmarshal([]byte(read("deploy/config/strongroom.yaml")), &example))
	settings := 0
	for name, value := range example.Host {
		if strings.HasPrefix(name, "swtpm_") {
			require.Contains(t, operators, "`host."+name+"`")
			settings++
		}
		if name == "swtpm_enabled" {
			require.Contains(t, operators, fmt.Sprintf("| `host.swtpm_enabled` | configuration of a host | `%v`. The specification's `vtpm_enabled` is `false`", value))
		}
	}
	require.Equal(t, 5, settings)
	matrix := read("docs/features.md")
	require.Contains(t, matrix, "| vTPM |\n")
	words := map[compute.OperationKind]string{
		compute.OpUnpause: "pause", compute.OpResume: "suspend", compute.OpUnrescue: "rescue", compute.OpShelveOffload: "shelve", compute.OpConfirmResize: "confirm",
		compute.OpRevertResize: "revert", compute.OpLiveMigrate: "live migration", compute.OpRotateKeys: "keys rotated", compute.OpBackUpTPM: "vTPM backed up",
		compute.OpInterfaceAttach: "interfaces attached", compute.OpInterfaceDetach: "interfaces attached",
		compute.OpShareAttach: "shares", compute.OpShareDetach: "shares", compute.OpImportLegacy: "imported", compute.OpCrashDump: "crash dump triggered",
	}
	for _, a := range compute.Actions {
		if !a.InRequest { // a lock, say, is the same for all servers
			require.Regexp(t, `(?m)^\|[^|]*\b`+cmp.Or(words[a.Kind], string(a.Kind))+`\b`, matrix)
		}
	}
}
