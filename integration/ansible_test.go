package integration_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
)

// ansibleRoot is where `./task tool:ansible` unpacks Ansible with its modules for OpenStack.
const ansibleRoot = "/var/tmp/strongroom-ansible-root"

// inAnsiblesRoot is a script that runs a command in the root $1, with the folder $2 as /mnt. Its mounts end with it.
const inAnsiblesRoot = `set -e
root=$1; mount --rbind /dev "$root/dev"; mount -t proc proc "$root/proc"; mount --bind "$2" "$root/mnt"; shift 2
exec chroot "$root" "$@"`

// playbooks runs Ansible's playbooks of docs/examples.
type playbooks struct {
	dir  string
	user string // by the name in clouds.yaml
}

func playbooksOf(t *testing.T, c *testCloud, user string) playbooks {
	t.Helper()
	require.DirExists(t, ansibleRoot, "./task tool:ansible")
	p := playbooks{dir: t.TempDir(), user: c.entry(user)}
	require.NoError(t, os.CopyFS(p.dir, os.DirFS("../docs/examples/ansible")))
	file, err := os.ReadFile(c.CloudsFile())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "clouds.yaml"), file, 0o600))
	return p
}

// leaves has a test that fails leave nothing to the next one.
func (p playbooks) leaves(t *testing.T, name string, gone map[string]string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			_, _ = p.try(context.WithoutCancel(t.Context()), name, gone)
		}
	})
}

// run runs a playbook, and gives what it says.
func (p playbooks) run(t *testing.T, name string, variables map[string]string) string {
	t.Helper()
	out, err := p.try(t.Context(), name, variables)
	require.NoError(t, err, "%s", out)
	return out
}

func (p playbooks) try(ctx context.Context, name string, variables map[string]string) (string, error) {
	args := []string{
		"--mount", "--propagation", "private", "sh", "-c", inAnsiblesRoot, "sh", ansibleRoot, p.dir,
		"env", "-i", "PATH=/usr/bin:/bin", "HOME=/tmp", "LC_ALL=C.UTF-8", "ANSIBLE_NOCOLOR=1", "ANSIBLE_LOCALHOST_WARNING=False", "ANSIBLE_INVENTORY_UNPARSED_WARNING=False",
		"OS_CLOUD=" + p.user, "OS_CLIENT_CONFIG_FILE=/mnt/clouds.yaml", "ansible-playbook", "/mnt/" + name,
	}
	for _, key := range slices.Sorted(maps.Keys(variables)) {
		args = append(args, "-e", key+"="+variables[key])
	}
	if _, err := os.Stat(filepath.Join(p.dir, "secret.yml")); err == nil {
		args = append(args, "-e", "@/mnt/secret.yml")
	}
	out, err := exec.CommandContext(ctx, "unshare", args...).CombinedOutput()
	return string(out), err
}

// TestAnsible has a user's playbook make a server and take it away. A playbook that is run again changes nothing.
func TestAnsible(t *testing.T) {
	onDemand(t, local)
	c := sharedCloud(t)
	p := playbooksOf(t, c, "-demo")
	out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(p.dir, "key")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	variables := map[string]string{"server_name": "by-ansible", "flavor": c.flavor(t, smallGuest), "image": "tiny", "network": "demo", "public_key": "/mnt/key.pub"}
	gone := map[string]string{"server_name": "by-ansible", "state": "absent"}
	p.leaves(t, "server.yml", gone)
	said := p.run(t, "server.yml", variables)
	all := listed(t, c.compute(t, "-demo"), servers.ListOpts{Name: "^by-ansible$"})
	require.Len(t, all, 1)
	id := all[0]
	s := c.becomes(t, id, "ACTIVE")
	require.Equal(t, map[string]string{"called": "by-ansible"}, s.Metadata)
	require.Equal(t, "by-ansible-admin", s.KeyName)
	require.Contains(t, said, id+" at "+onlyAddress(t, s))
	require.Contains(t, p.run(t, "server.yml", variables), "changed=0")

	p.run(t, "server.yml", gone)
	c.gone(t, id)
	require.Contains(t, p.run(t, "server.yml", gone), "changed=0")
}

// TestAnsibleMakesAProject has an administrator's playbook make a project with a quota and a user, who makes a server in it.
func TestAnsibleMakesAProject(t *testing.T) {
	onDemand(t, local)
	c := sharedCloud(t)
	p := playbooksOf(t, c, "")
	const password = "correct horse"
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "secret.yml"), []byte("password: "+password+"\n"), 0o600))
	variables := map[string]string{"project_name": "crew", "user_name": "ben", "servers": "2"}
	p.leaves(t, "project.yml", map[string]string{"project_name": "crew", "user_name": "ben", "state": "absent"})
	require.NotContains(t, p.run(t, "project.yml", variables), password)
	require.Contains(t, p.run(t, "project.yml", variables), "changed=0")
	usesItsProject(t, c, "crew", "ben", password, c.flavor(t, smallGuest), 2)

	variables["state"] = "absent"
	p.run(t, "project.yml", variables)
	_, err := c.loginWith(t, "crew", "ben", password)
	require.True(t, gophercloud.ResponseCodeIs(err, 401), "%v", err)
	require.Contains(t, p.run(t, "project.yml", variables), "changed=0")
}
