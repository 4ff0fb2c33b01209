package cloud

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"strongroom/deploy/cloud/ovn"
	"strongroom/deploy/dev/process"
)

// metadataAgent is the name of Neutron's agent that brings guests' questions to the metadata service.
const metadataAgent = "neutron-metadata"

// MetadataSecret is a file with a secret for ServeMetadata, which is made where it is not there.
func (c *Cloud) MetadataSecret() (string, error) {
	file := c.file("metadata.secret")
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		return file, err
	}
	return file, writeFile(file, []byte(hex.EncodeToString(random(32))+"\n"))
}

// ServeMetadata has the guests on this machine's switch (Config.Guests) answered at 169.254.169.254 by a metadata service that
// listens on loopback and shares a secret, in a file, with Neutron's agent. The agent is stopped with the other services.
func (c *Cloud) ServeMetadata(ctx context.Context, port int, secretFile string) error {
	hosts, err := c.hosts()
	if err != nil {
		return err
	}
	secret, err := os.ReadFile(secretFile)
	if err != nil {
		return err
	}
	file, state := c.file("etc/neutron-metadata.conf"), c.file(metadataAgent)
	text := fmt.Sprintf(`[DEFAULT]
use_stderr = True
state_path = %[1]s
nova_metadata_host = 127.0.0.1
nova_metadata_port = %[2]d
metadata_proxy_shared_secret = %[3]s
# With none, its socket takes questions and answers none.
metadata_workers = 1
metadata_proxy_user = root
metadata_proxy_group = root
[agent]
root_helper =
[ovs]
ovsdb_connection = unix:%[4]s/db.sock
[ovn]
ovn_sb_connection = %[5]s
[oslo_concurrency]
lock_path = %[1]s
`, state, port, strings.TrimSpace(string(secret)), ovn.Switch(c.file("ovn"), hosts[0]), ovn.Southbound(c.file("ovn")))
	text += withoutSudo(file)
	if err := writeFile(file, []byte(text)); err != nil {
		return err
	}
	agent := c.process(metadataAgent, c.cfg.Dir, "/usr/bin/neutron-ovn-metadata-agent", "--config-file", file)
	agent.Patience = 3 * time.Second
	p, err := process.Start(ctx, agent)
	if err != nil {
		return err
	}
	c.processes[metadataAgent] = p
	return nil
}

// withoutSudo is the part of an agent's settings, which are in a file, that has its helpers begin as root that they are run by: each
// would ask sudo.
func withoutSudo(file string) (text string) {
	for _, group := range []string{"privsep", "privsep_namespace", "privsep_link", "privsep_ovs_vsctl", "privsep_dhcp_release", "privsep_conntrack"} {
		text += fmt.Sprintf("[%s]\nhelper_command = privsep-helper --config-file %s\n", group, file)
	}
	return text
}

// removeProxies ends what the agent leaves where networks still have guests: a proxy for each, in a network namespace of its own.
func (c *Cloud) removeProxies(ctx context.Context) (err error) {
	files, err := filepath.Glob(filepath.Join(c.file(metadataAgent), "external", "pids", "*.pid.haproxy"))
	for _, file := range files {
		network, _, _ := strings.Cut(filepath.Base(file), ".")
		text, _ := os.ReadFile(file)
		if pid, bad := strconv.Atoi(strings.TrimSpace(string(text))); bad == nil && pid > 1 {
			if command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(command), network) {
				err = errors.Join(err, syscall.Kill(pid, syscall.SIGKILL))
			}
		}
		if out, failed := exec.CommandContext(ctx, "ip", "netns", "delete", "ovnmeta-"+network).CombinedOutput(); failed != nil {
			err = errors.Join(err, fmt.Errorf("ip netns delete: %w: %s", failed, out))
		}
	}
	return err
}
