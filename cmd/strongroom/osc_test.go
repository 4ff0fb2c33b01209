package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// pluggedClient is Debian's openstack with the plugin of client/osc.
type pluggedClient struct {
	t    *testing.T
	path string
	here region
}

func newPluggedClient(t *testing.T, here region) pluggedClient {
	t.Helper()
	if _, err := exec.LookPath("openstack"); err != nil && os.Getenv("CI") == "" {
		t.Skip("python3-openstackclient is not installed")
	}
	source, err := filepath.Abs("../../client/osc")
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(source)))
	build := exec.CommandContext(t.Context(), "/usr/bin/python3", "setup.py", "-q", "egg_info")
	build.Dir = folder
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return pluggedClient{t, folder, here}
}

func (c pluggedClient) run(args ...string) (string, error) {
	cmd := exec.CommandContext(c.t.Context(), "openstack", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.path, "LC_ALL=C.UTF-8", "PYTHONPATH=" + c.path, "OS_IDENTITY_API_VERSION=3", "OS_AUTH_URL=" + c.here.auth,
		"OS_USERNAME=demo", "OS_PASSWORD=" + c.here.passwords["demo"], "OS_PROJECT_NAME=demo", "OS_USER_DOMAIN_NAME=Default", "OS_PROJECT_DOMAIN_NAME=Default"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c pluggedClient) does(args ...string) string {
	c.t.Helper()
	out, err := c.run(args...)
	require.NoError(c.t, err, "%v: %s", args, out)
	return out
}

// Debian's openstack client shows what strongroom adds, with the plugin.
func TestOpenStackClientPlugin(t *testing.T) {
	t.Parallel()
	d, here := newOffice(t)
	c := newPluggedClient(t, here)
	d.does("server", "create", "vault", "--flavor", "small", "--image", "tiny")
	require.Equal(t, "root False\n", c.does("strongroom", "disk", "list", "vault", "-f", "value", "-c", "Role", "-c", "Encrypted"))
	var made map[string]any
	require.NoError(t, json.Unmarshal([]byte(c.does("strongroom", "image", "create", "vault", "copy", "--key", "none", "--wait", "-f", "json")), &made))
	require.Equal(t, "succeeded", made["state"])
	require.Equal(t, "createImage succeeded\ncreate succeeded\n", c.does("strongroom", "operation", "list", "vault", "-f", "value", "-c", "Kind", "-c", "State"))
	require.Equal(t, "createImage\n", c.does("strongroom", "operation", "show", "vault", made["operation"].(string), "-f", "value", "-c", "kind"))
	out, err := c.run("strongroom", "operation", "cancel", "vault", made["operation"].(string))
	require.Error(t, err)
	require.Contains(t, out, "has ended: it is succeeded.")
	out, err = c.run("strongroom", "key", "rotate", "vault")
	require.Error(t, err)
	require.Contains(t, out, "(HTTP 409)", "it has no encrypted disk")

	id := strings.TrimSpace(d.does("server", "show", "vault", "-o", "value", "-c", "id"))
	require.Equal(t, "root\n", c.does("strongroom", "disk", "list", id, "-f", "value", "-c", "Role"))
	out, err = c.run("strongroom", "disk", "list", "vaul.")
	require.Error(t, err)
	require.Contains(t, out, "There is no server vaul.")
	out, err = c.run("strongroom", "tpm", "certificates", "vault")
	require.Error(t, err)
	require.Contains(t, out, "has no vTPM with certificates. (HTTP 404)")
	here.run.endorse(t, id)
	require.Equal(t, []string{"RSA 2048 0x01c00002", "ECC NIST P384 0x01c00016"},
		strings.Split(strings.TrimSpace(c.does("strongroom", "tpm", "certificates", "vault", "-f", "value", "-c", "Key", "-c", "NV index")), "\n"))
	d.does("server", "create", "vault", "--flavor", "small", "--image", "tiny")
	out, err = c.run("strongroom", "disk", "list", "vault")
	require.Error(t, err)
	require.Contains(t, out, "There are 2 servers named vault")
	d.does("server", "delete", id)

	here.run.set(false, map[compute.OperationKind]string{compute.OpCreateImage: "the image service is full"})
	out, err = c.run("strongroom", "image", "create", "vault", "copy", "--wait")
	require.Error(t, err)
	require.Regexp(t, `createImage \(req-[0-9a-f-]+\) failed: the image service is full`, strings.TrimSpace(out))
}
