package stack

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"strongroom/deploy/dev/temporal"
	"strongroom/worker/pki"
)

// Layout says where things are on one machine: files below one folder, ports
// in one row.
type Layout struct {
	State    string // absolute; short, since unix sockets live below it
	PortBase int    // the first of the ports on 127.0.0.1
}

// DefaultState and DefaultPortBase are where `strongroom dev` lives.
const (
	DefaultState    = "/var/lib/strongroom-dev"
	DefaultPortBase = 8770
)

// maxState keeps the longest socket path below the 108 bytes of a unix address:
// the serial console of a server, below run, on a host that is not the first.
const maxState = 56

// ports is how many ports a stack takes.
const ports = 9

// netRow parts the ports into rows of which each has networks of its own. Their addresses stay when a stack takes a port more.
const netRow = 8

// Places in the row: of the compute API, and of the agents of hosts.
const (
	apiPort   = 4
	agentPort = 5
)

func (l Layout) port(n int) string   { return fmt.Sprintf("127.0.0.1:%d", l.PortBase+n) }
func (l Layout) cloudAddr() string   { return l.port(0) }
func (l Layout) temporalPort() int   { return l.PortBase + 1 }
func (l Layout) temporalUIPort() int { return l.PortBase + 2 }
func (l Layout) apiPort() int        { return l.PortBase + apiPort }
func (l Layout) apiAddr() string     { return l.port(apiPort) }

func (l Layout) gatewayAddr() string { return l.port(7) }

func (l Layout) consoleAddr() string { return l.port(8) }

// consoleIdentity is the console proxy's certificate.
func (l Layout) consoleIdentity() string { return l.path("console-proxy.pem") }

// MetadataAddr is where the metadata service listens.
func (l Layout) MetadataAddr() string { return l.port(metadataPort) }

// metadataPort is the metadata service's, of the row. Guests find it at it, too, at the gateways of their networks.
const metadataPort = 6

// MetadataSecret holds the secret of the metadata service's proxies.
func (l Layout) MetadataSecret() string { return l.path("metadata.secret") }

// PortsAreFree fails when somebody else listens where a part is going to: its
// clients would talk to a stranger.
func (l Layout) PortsAreFree() error {
	for n := range ports {
		listener, err := net.Listen("tcp", l.port(n))
		if err != nil {
			return fmt.Errorf("%s is taken: stop what listens there, or choose other ports with --port-base (%w)", l.port(n), err)
		}
		_ = listener.Close()
	}
	return nil
}

// AuthURL is the identity service.
func (l Layout) AuthURL() string { return "http://" + l.cloudAddr() + "/identity/v3" }

func (l Layout) passwordFile() string { return l.path("service.password") }

// APIURL is the compute API's root.
func (l Layout) APIURL() string { return "http://" + l.apiAddr() }

// TemporalAddress is Temporal's frontend.
func (l Layout) TemporalAddress() string { return fmt.Sprintf("127.0.0.1:%d", l.temporalPort()) }

// TemporalUI is the web UI with one row per operation.
func (l Layout) TemporalUI() string { return fmt.Sprintf("http://127.0.0.1:%d", l.temporalUIPort()) }

func (l Layout) path(parts ...string) string {
	return filepath.Join(append([]string{l.State}, parts...)...)
}

// ConfigFile is the services' configuration, CloudsFile the clients'.
func (l Layout) ConfigFile() string { return l.path("strongroom.yaml") }

// HostConfigFile is the first host worker's configuration.
func (l Layout) HostConfigFile() string { return l.Host(1).ConfigFile() }

// Authority is the folder of the certificate authority.
func (l Layout) Authority() string { return l.path("ca") }

// DialTemporal connects to Temporal as a process of that name, without the keys with which
// strongroom's own authenticate what they say.
func (l Layout) DialTemporal(as pki.Name) (client.Client, error) {
	tls, err := temporal.TLS(l.Authority(), as)
	if err != nil {
		return nil, err
	}
	return client.Dial(client.Options{
		HostPort: l.TemporalAddress(), Namespace: "default", ConnectionOptions: client.ConnectionOptions{TLS: tls},
		Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
}

// CloudsFile is a clouds.yaml with the clouds of this stack.
func (l Layout) CloudsFile() string { return l.path("clouds.yaml") }

// ReadyFile exists while everything answers.
func (l Layout) ReadyFile() string { return l.path("ready") }

// PIDFile holds the process id of one part.
func (l Layout) PIDFile(part string) string { return l.path("pid", part+".pid") }

// LogFile holds what one part printed.
func (l Layout) LogFile(part string) string { return l.path("log", part+".log") }

// Instances is the folder of the servers' disks on the first host.
func (l Layout) Instances() string { return l.Host(1).Instances() }

// ConsoleSocket is the serial line of a server of the first host, to read and to type.
func (l Layout) ConsoleSocket(server string) string { return l.Host(1).ConsoleSocket(server) }

// make makes the folders.
func (l Layout) make() error {
	if len(l.State) > maxState || !filepath.IsAbs(l.State) {
		return fmt.Errorf("the state folder %q must be an absolute path of at most %d bytes", l.State, maxState)
	}
	return makeFolders(l.State, map[string]os.FileMode{"images": 0o700, "keys": 0o700, "log": 0o755, "pid": 0o755, "temporal": 0o700})
}

// makeFolders makes a folder, which the hypervisor's user can pass and nobody list, and
// folders in it.
func makeFolders(parent string, modes map[string]os.FileMode) error {
	if err := makeFolder(parent, 0o711); err != nil {
		return err
	}
	for name, mode := range modes {
		if err := makeFolder(filepath.Join(parent, name), mode); err != nil {
			return err
		}
	}
	return nil
}

func makeFolder(path string, mode os.FileMode) error {
	if err := os.MkdirAll(path, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}
