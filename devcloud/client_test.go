package devcloud_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/cloud/clienttest"
)

// openstackClient gives a function that runs the python client as a user in project demo.
func (b *bench) openstackClient(t *testing.T, user string) func(args ...string) []byte {
	t.Helper()
	python := b.python(t, user)
	return func(args ...string) []byte {
		t.Helper()
		out, said, err := python.Run(t, args...)
		require.NoError(t, err, said)
		return []byte(out)
	}
}

func (b *bench) python(t *testing.T, user string) clienttest.Client {
	t.Helper()
	return clienttest.Open(t, "OS_IDENTITY_API_VERSION=3", "OS_AUTH_URL="+b.AuthURL(), "OS_USERNAME="+user,
		"OS_PASSWORD="+b.passwords[user], "OS_PROJECT_NAME=demo", "OS_USER_DOMAIN_NAME=Default",
		"OS_PROJECT_DOMAIN_NAME=Default", "OS_REGION_NAME=RegionOne")
}

func parse[T any](t *testing.T, out []byte) T {
	t.Helper()
	var value T
	require.NoError(t, json.Unmarshal(out, &value), "%s", out)
	return value
}

func TestTheStandardClientsIdentity(t *testing.T) {
	t.Parallel()
	b := setup(t)
	openstack := b.openstackClient(t, "admin")
	token := parse[map[string]any](t, openstack("token", "issue", "-f", "json"))
	require.NotEmpty(t, token["id"])
	require.Len(t, token["project_id"], 32)
	catalog := parse[[]map[string]any](t, openstack("catalog", "list", "-f", "json"))
	require.Len(t, catalog, 4)
	require.Len(t, parse[[]any](t, openstack("project", "list", "-f", "json")), 4)
	require.Len(t, parse[[]any](t, openstack("user", "list", "-f", "json")), 5)
	project := parse[map[string]any](t, openstack("project", "show", "alt", "-f", "json"))
	require.Equal(t, "alt", project["name"])
	require.NotEmpty(t, parse[[]any](t, openstack("role", "assignment", "list", "--names", "-f", "json")))
}

func TestTheStandardClientsImages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	openstack := b.openstackClient(t, "admin")
	dir := t.TempDir()
	file := filepath.Join(dir, "disk.qcow2")
	out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", file, "64M").CombinedOutput()
	require.NoError(t, err, "%s", out)

	made := parse[map[string]any](t, openstack("image", "create", "tiny", "--file", file, "--disk-format", "qcow2", "--container-format", "bare",
		"--property", "hw_tpm_version=2.0", "--tag", "t", "--min-disk", "1", "--public", "-f", "json"))
	require.Equal(t, "tiny", made["name"])
	shown := parse[map[string]any](t, openstack("image", "show", "tiny", "-f", "json"))
	require.Equal(t, made["id"], shown["id"])
	require.Equal(t, "active", shown["status"])
	require.Equal(t, "public", shown["visibility"])
	require.EqualValues(t, 64<<20, shown["virtual_size"])
	require.Equal(t, "2.0", shown["properties"].(map[string]any)["hw_tpm_version"])

	openstack("image", "set", "tiny", "--name", "small", "--property", "os_distro=debian", "--tag", "u", "--private")
	openstack("image", "unset", "small", "--property", "hw_tpm_version", "--tag", "t")
	shown = parse[map[string]any](t, openstack("image", "show", fmt.Sprint(made["id"]), "-f", "json"))
	require.Equal(t, "small", shown["name"])
	require.Equal(t, "private", shown["visibility"])
	require.Equal(t, []any{"u"}, shown["tags"])
	require.Equal(t, "debian", shown["properties"].(map[string]any)["os_distro"])
	require.NotContains(t, shown["properties"], "hw_tpm_version")

	saved := filepath.Join(dir, "saved")
	openstack("image", "save", "small", "--file", saved)
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	got, err := os.ReadFile(saved)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))

	require.Len(t, parse[[]any](t, openstack("image", "list", "-f", "json")), 1)
	openstack("image", "delete", "small")
	require.Empty(t, parse[[]any](t, openstack("image", "list", "-f", "json")))
}
