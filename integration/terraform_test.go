package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
)

// terraformMain has a server on the project's network, with all that is looked up for it. Its arguments are the cloud, the
// flavor and the image.
const terraformMain = `
terraform {
  required_providers {
    openstack = {
      source = "terraform-provider-openstack/openstack"
    }
  }
}
variable "name" { type = string }
variable "power" { type = string }
provider "openstack" {
  cloud = %q
}
data "openstack_compute_flavor_v2" "small" {
  name = %q
}
data "openstack_images_image_v2" "tiny" {
  name = %q
}
data "openstack_networking_network_v2" "lan" {
  tenant_id = data.openstack_networking_secgroup_v2.default.tenant_id
}
data "openstack_networking_subnet_v2" "lan" {
  network_id = data.openstack_networking_network_v2.lan.id
}
data "openstack_networking_secgroup_v2" "default" {
  name = "default"
}
resource "openstack_compute_servergroup_v2" "apart" {
  name     = "apart"
  policies = ["soft-anti-affinity"]
}
resource "openstack_compute_instance_v2" "web" {
  name            = var.name
  flavor_id       = data.openstack_compute_flavor_v2.small.id
  image_id        = data.openstack_images_image_v2.tiny.id
  security_groups = [data.openstack_networking_secgroup_v2.default.name]
  metadata        = { called = var.name }
  tags            = ["terraform"]
  power_state     = var.power
  network {
    uuid = data.openstack_networking_network_v2.lan.id
  }
  scheduler_hints {
    group = openstack_compute_servergroup_v2.apart.id
  }
}
data "openstack_networking_port_v2" "web" {
  device_id = openstack_compute_instance_v2.web.id
}
output "id" { value = openstack_compute_instance_v2.web.id }
output "address" { value = openstack_compute_instance_v2.web.access_ip_v4 }
output "port" { value = data.openstack_networking_port_v2.web.all_fixed_ips[0] }
output "cidr" { value = data.openstack_networking_subnet_v2.lan.cidr }
`

// TestTerraform has Terraform, with its provider for OpenStack, look up what there is, make a server of it, change the
// server and delete it. After each of these it finds nothing more to change.
func TestTerraform(t *testing.T) {
	onDemand(t, local)
	program, err := exec.LookPath("terraform")
	require.NoError(t, err, "install Terraform")
	plugins, err := filepath.Abs("../.bin")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(plugins, "terraform-provider-openstack"), "./task tool:terraform-provider")
	c := sharedCloud(t)

	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	settings := write("terraformrc", fmt.Sprintf("disable_checkpoint = true\nprovider_installation {\n  dev_overrides {\n    \"terraform-provider-openstack/openstack\" = %q\n  }\n  direct {}\n}\n", plugins))
	write("main.tf", fmt.Sprintf(terraformMain, c.entry("-demo"), c.flavor(t, smallGuest), "tiny"))
	run := func(ctx context.Context, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+settings, "TF_IN_AUTOMATION=1", "OS_CLIENT_CONFIG_FILE="+c.CloudsFile())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	is := func(name, power string) (outputs map[string]struct{ Value string }) {
		t.Helper()
		as := []string{"-no-color", "-input=false", "-var", "name=" + name, "-var", "power=" + power}
		said, err := run(t.Context(), append([]string{"apply", "-auto-approve"}, as...)...)
		require.NoError(t, err, said)
		said, err = run(t.Context(), append([]string{"plan", "-detailed-exitcode"}, as...)...)
		require.NoError(t, err, "it would change something again: %s", said)
		said, err = run(t.Context(), "output", "-json")
		require.NoError(t, err, said)
		require.NoError(t, json.Unmarshal([]byte(said), &outputs), said)
		return outputs
	}
	destroy := func(ctx context.Context) {
		said, err := run(ctx, "destroy", "-auto-approve", "-no-color", "-input=false", "-var", "name=", "-var", "power=active")
		require.NoError(t, err, said)
	}
	t.Cleanup(func() { destroy(context.WithoutCancel(t.Context())) })

	made := is("by-terraform", "active")
	id := made["id"].Value
	s := c.becomes(t, id, "ACTIVE")
	require.Equal(t, onlyAddress(t, s), made["address"].Value)
	require.Equal(t, made["address"].Value, made["port"].Value)
	require.NotEmpty(t, made["cidr"].Value)

	changed := is("called-otherwise", "shutoff")
	require.Equal(t, id, changed["id"].Value, "it is the same server")
	s = c.becomes(t, id, "SHUTOFF")
	require.Equal(t, "called-otherwise", s.Name)
	require.Equal(t, map[string]string{"called": "called-otherwise"}, s.Metadata)
	is("called-otherwise", "active")
	c.becomes(t, id, "ACTIVE")

	destroy(t.Context())
	_, err = servers.Get(t.Context(), c.compute(t, "-demo"), id).Extract()
	require.Error(t, err)
	c.gone(t, id)
}
