package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/quotasets"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
)

// terraform runs Terraform, with its provider for OpenStack, on an example of docs/examples.
type terraform struct {
	program, dir string
	env          []string
}

// terraformOf is the example as a user of a cloud runs it; sensitive are variables that are no argument. Nothing is made yet.
func terraformOf(t *testing.T, c *testCloud, example, user string, sensitive map[string]string) terraform {
	t.Helper()
	program, err := exec.LookPath("terraform")
	require.NoError(t, err, "install Terraform")
	plugins, err := filepath.Abs("../.bin")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(plugins, "terraform-provider-openstack"), "./task tool:terraform-provider")
	tf := terraform{program: program, dir: t.TempDir()}
	require.NoError(t, os.CopyFS(tf.dir, os.DirFS(filepath.Join("../docs/examples/terraform", example))))
	settings := filepath.Join(t.TempDir(), "terraformrc")
	text := fmt.Sprintf("disable_checkpoint = true\nprovider_installation {\n  dev_overrides {\n    \"terraform-provider-openstack/openstack\" = %q\n  }\n  direct {}\n}\n", plugins)
	require.NoError(t, os.WriteFile(settings, []byte(text), 0o600))
	tf.env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+settings, "TF_IN_AUTOMATION=1", "OS_CLIENT_CONFIG_FILE="+c.CloudsFile(), "OS_CLOUD="+c.entry(user))
	for name, value := range sensitive {
		tf.env = append(tf.env, "TF_VAR_"+name+"="+value)
	}
	return tf
}

func (tf terraform) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, tf.program, args...)
	cmd.Dir, cmd.Env = tf.dir, tf.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// withVariables gives arguments with what a command of Terraform is told besides.
func withVariables(variables map[string]string, command ...string) []string {
	args := append(command, "-no-color", "-input=false")
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		args = append(args, "-var", name+"="+variables[name])
	}
	return args
}

// is has the example made or changed, and requires that Terraform then finds nothing more to change.
func (tf terraform) is(t *testing.T, variables map[string]string) (outputs map[string]struct{ Value string }) {
	t.Helper()
	said, err := tf.run(t.Context(), withVariables(variables, "apply", "-auto-approve")...)
	require.NoError(t, err, said)
	said, err = tf.run(t.Context(), withVariables(variables, "plan", "-detailed-exitcode")...)
	require.NoError(t, err, "it would change something again: %s", said)
	said, err = tf.run(t.Context(), "output", "-json")
	require.NoError(t, err, said)
	require.NoError(t, json.Unmarshal([]byte(said), &outputs), said)
	return outputs
}

func (tf terraform) destroy(t *testing.T, ctx context.Context, variables map[string]string) { //nolint:revive // the test's own may have ended
	t.Helper()
	said, err := tf.run(ctx, withVariables(variables, "destroy", "-auto-approve")...)
	require.NoError(t, err, said)
}

// TestTerraform has Terraform look up what there is, make a server of it, change the server and delete it. After each of
// these it finds nothing more to change.
func TestTerraform(t *testing.T) {
	onDemand(t, local)
	c := sharedCloud(t)
	tf := terraformOf(t, c, "server", "-demo", nil)
	variables := map[string]string{"name": "by-terraform", "flavor": c.flavor(t, smallGuest), "image": "tiny", "power": "active"}
	t.Cleanup(func() { tf.destroy(t, context.WithoutCancel(t.Context()), variables) })

	made := tf.is(t, variables)
	id := made["id"].Value
	s := c.becomes(t, id, "ACTIVE")
	require.Equal(t, onlyAddress(t, s), made["address"].Value)
	require.Equal(t, made["address"].Value, made["port"].Value)
	require.NotEmpty(t, made["cidr"].Value)
	require.Contains(t, made["private_key"].Value, "PRIVATE KEY")

	variables["name"], variables["power"] = "called-otherwise", "shutoff"
	changed := tf.is(t, variables)
	require.Equal(t, id, changed["id"].Value, "it is the same server")
	s = c.becomes(t, id, "SHUTOFF")
	require.Equal(t, "called-otherwise", s.Name)
	require.Equal(t, map[string]string{"called": "called-otherwise"}, s.Metadata)
	variables["power"] = "active"
	tf.is(t, variables)
	c.becomes(t, id, "ACTIVE")

	tf.destroy(t, t.Context(), variables)
	_, err := servers.Get(t.Context(), c.compute(t, "-demo"), id).Extract()
	require.Error(t, err)
	c.gone(t, id)
}

// TestTerraformMakesAProject has an administrator's Terraform make a project with a quota, a user and a flavor for sealed servers.
// The user makes such a server, and none beyond the quota.
func TestTerraformMakesAProject(t *testing.T) {
	onDemand(t, local)
	c := sharedCloud(t)
	const password = "correct horse"
	tf := terraformOf(t, c, "project", "", map[string]string{"password": password})
	variables := map[string]string{"name": "team", "user": "ann", "servers": "3"}
	t.Cleanup(func() { tf.destroy(t, context.WithoutCancel(t.Context()), variables) })
	made := tf.is(t, variables)
	usesItsProject(t, c, "team", "ann", password, made["flavor_id"].Value, 3)

	variables["servers"] = "1"
	changed := tf.is(t, variables)
	require.Equal(t, made["project"].Value, changed["project"].Value, "it is the same project")
	usesItsProject(t, c, "team", "ann", password, made["flavor_id"].Value, 1)

	tf.destroy(t, t.Context(), variables)
	_, err := c.loginWith(t, "team", "ann", password)
	require.True(t, gophercloud.ResponseCodeIs(err, 401), "%v", err)
}

// loginWith logs a user in who is in no clouds.yaml.
func (c *testCloud) loginWith(t *testing.T, project, user, password string) (session, error) {
	t.Helper()
	admin, err := c.session("")
	require.NoError(t, err)
	provider, err := openstack.AuthenticatedClient(t.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: admin.provider.IdentityEndpoint, Username: user, Password: password, TenantName: project, DomainName: "Default",
	})
	return session{provider: provider, endpoint: admin.endpoint}, err
}

// usesItsProject has a user of a project make a server of a flavor, and one more than the quota, which is refused.
func usesItsProject(t *testing.T, c *testCloud, project, user, password, flavor string, quota int) {
	t.Helper()
	s, err := c.loginWith(t, project, user, password)
	require.NoError(t, err)
	client := s.compute(t)
	require.Empty(t, listed(t, client, servers.ListOpts{}), "the project has none")
	create := func(count int) (string, error) {
		opts := servers.CreateOpts{Name: "sealed", FlavorRef: flavor, ImageRef: c.idler, Networks: "none", Min: count, Max: count}
		made, err := servers.Create(t.Context(), client, opts, nil).Extract()
		if err != nil {
			return "", err
		}
		return made.ID, nil
	}
	_, err = create(quota + 1)
	require.True(t, gophercloud.ResponseCodeIs(err, 403), "%v", err)
	require.Empty(t, listed(t, client, servers.ListOpts{}))
	id, err := create(1)
	require.NoError(t, err)
	t.Cleanup(func() { _ = servers.ForceDelete(context.WithoutCancel(t.Context()), c.compute(t, ""), id).ExtractErr() })
	require.Equal(t, "ACTIVE", c.settledAs(t, "", id).Status)
	used, err := quotasets.GetDetail(t.Context(), client, c.settledAs(t, "", id).TenantID).Extract()
	require.NoError(t, err)
	require.Equal(t, quota, used.Instances.Limit)
	require.Equal(t, 1, used.Instances.InUse)
	require.NoError(t, servers.Delete(t.Context(), client, id).ExtractErr())
	c.goneAs(t, "", id)
}
