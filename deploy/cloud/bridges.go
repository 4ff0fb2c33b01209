package cloud

import (
	"context"
	"errors"
	"fmt"
	"os"
	osuser "os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"strongroom/deploy/dev/forward"
	"strongroom/deploy/dev/port"
	"strongroom/deploy/dev/process"
)

// Broker is RabbitMQ. With it, Neutron makes its networks of Linux bridges, by agents on the hosts of AddBridgeHost, in place of
// OVN. Needs root and the packages of deploy/install-packages linuxbridge.
const Broker = "rabbitmq"

// bridgeAgents are Neutron's agents of a host: what wires servers' interfaces, and what gives their addresses.
var bridgeAgents = []string{"linuxbridge", "dhcp"}

// BridgesInstalled reports whether the packages of Broker and its agents are.
func BridgesInstalled() bool {
	for _, program := range []string{"/usr/bin/neutron-linuxbridge-agent", "/usr/bin/neutron-dhcp-agent", "/usr/lib/rabbitmq/bin/rabbitmq-server"} {
		if _, err := os.Stat(program); err != nil {
			return false
		}
	}
	return true
}

// broker is the URL of the broker, which nothing outside this machine's loopback reaches.
func (c *Cloud) broker() string {
	return fmt.Sprintf("rabbit://guest:guest@127.0.0.1:%d/", c.settings.Ports[Broker])
}

// startBroker starts RabbitMQ, with files and ports of its own, and returns once it listens.
func (c *Cloud) startBroker(ctx context.Context) error {
	account, err := osuser.Lookup("rabbitmq")
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(account.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(account.Gid)
	if err != nil {
		return err
	}
	dir, ports := c.file(Broker), c.settings.Ports
	settings, plugins := filepath.Join(dir, "rabbitmq.conf"), filepath.Join(dir, "plugins")
	for name, text := range map[string]string{
		settings:                             fmt.Sprintf("listeners.tcp.1 = 127.0.0.1:%d\nlog.console = true\nlog.file = false\n", ports[Broker]),
		plugins:                              "[].\n",
		filepath.Join(dir, ".erlang.cookie"): c.settings.Passwords["neutron"] + "\n",
	} {
		if err := writeFile(name, []byte(text)); err != nil {
			return err
		}
		if err := os.Lchown(name, uid, gid); err != nil {
			return err
		}
	}
	if err := os.Lchown(dir, uid, gid); err != nil {
		return err
	}
	names := fmt.Sprint(ports[Broker+"-names"])
	run := func(name string, environment []string, command ...string) (*process.Process, error) {
		cfg := c.process(name, dir, command...)
		cfg.Env = append(cfg.Env, environment...)
		cfg.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		cfg.Dir, cfg.Patience = dir, 5*time.Second
		p, err := process.Start(ctx, cfg)
		if err == nil {
			c.brokers = append(c.brokers, p)
		}
		return p, err
	}
	p, err := run("epmd", nil, "/usr/bin/epmd", "-address", "127.0.0.1", "-port", names)
	if err != nil {
		return err
	}
	// RabbitMQ would start a name server that it cannot reach yet itself, as a daemon.
	if err := p.Until(ctx, func(ctx context.Context) error { return port.Answers(ctx, "127.0.0.1:"+names) }); err != nil {
		return err
	}
	p, err = run(Broker, []string{
		"RABBITMQ_NODENAME=strongroom" + fmt.Sprint(ports[Broker]) + "@localhost", "RABBITMQ_CONFIG_FILE=" + settings,
		"RABBITMQ_MNESIA_BASE=" + dir, "RABBITMQ_LOG_BASE=" + dir, "RABBITMQ_ENABLED_PLUGINS_FILE=" + plugins,
		"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_DIST_PORT=" + fmt.Sprint(ports[Broker+"-nodes"]),
		"ERL_EPMD_PORT=" + names, "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
	}, "/usr/lib/rabbitmq/bin/rabbitmq-server")
	if err != nil {
		return err
	}
	if err := p.Until(ctx, func(ctx context.Context) error { return port.Answers(ctx, fmt.Sprintf("127.0.0.1:%d", ports[Broker])) }); err != nil {
		return err
	}
	return writeFile(c.file(networksMade), nil)
}

// stopBroker ends what hands on to the broker, and then it.
func (c *Cloud) stopBroker(ctx context.Context) error {
	for _, f := range c.forwards {
		f.Close()
	}
	var err error
	for i := len(c.brokers) - 1; i >= 0; i-- {
		err = errors.Join(err, c.brokers[i].Kill(ctx)) // Erlang's machine is a child of the script's
	}
	return err
}

// AddBridgeHost lets Neutron have a host whose guests are in a network namespace that `ip netns` knows (Broker): it
// wires what is plugged into its bridges there, and gives addresses.
func (c *Cloud) AddBridgeHost(ctx context.Context, name, netns string) error {
	f, err := forward.From(netns, fmt.Sprintf("127.0.0.1:%d", c.settings.Ports[Broker]))
	if err != nil {
		return fmt.Errorf("cloud: %w", err)
	}
	c.forwards = append(c.forwards, f)
	file, state := c.file("etc/neutron-"+name+".conf"), c.file("neutron-"+name)
	text := fmt.Sprintf(`[DEFAULT]
use_stderr = True
host = %[1]s
state_path = %[2]s
transport_url = %[3]s
# What is asked before Neutron listens is lost.
rpc_response_timeout = 5
interface_driver = linuxbridge
enable_isolated_metadata = False
report_interval = 5
[agent]
root_helper =
report_interval = 5
[linux_bridge]
physical_interface_mappings =
[vxlan]
enable_vxlan = False
[securitygroup]
enable_security_group = True
firewall_driver = iptables
[oslo_concurrency]
lock_path = %[2]s
%[4]s`, name, state, c.broker(), withoutSudo(file))
	if err := writeFile(file, []byte(text)); err != nil {
		return fmt.Errorf("cloud: %w", err)
	}
	if err := os.MkdirAll(state, 0o755); err != nil { // dnsmasq, which is nobody, passes through
		return fmt.Errorf("cloud: %w", err)
	}
	for _, agent := range bridgeAgents {
		// `ip netns exec` shows /sys as the namespace has it. The agent's own namespaces are not this machine's, and what it
		// starts, such as dnsmasq, ends with it.
		cfg := c.process("neutron-"+agent+"-"+name, state, "/usr/sbin/ip", "netns", "exec", netns, "unshare", "--pid", "--mount-proc", "--fork", "--kill-child",
			"sh", "-ec", `mount -t tmpfs tmpfs /run/netns; exec "$@"`, agent, "/usr/bin/neutron-"+agent+"-agent", "--config-file", file)
		cfg.StopSignal = syscall.SIGKILL
		p, err := process.Start(ctx, cfg)
		if err != nil {
			return fmt.Errorf("cloud: %w", err)
		}
		c.processes["neutron-"+agent+"-"+name] = p
	}
	client, err := c.networking(ctx)
	if err != nil {
		return fmt.Errorf("cloud: %w", err)
	}
	return c.processes[Neutron].Until(ctx, func(ctx context.Context) error {
		alive, err := agents(ctx, client)
		if err == nil && alive[name] < len(bridgeAgents) {
			err = fmt.Errorf("%d of %d agents of %s are alive", alive[name], len(bridgeAgents), name)
		}
		return err
	})
}
