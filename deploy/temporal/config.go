package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Config is the configuration file.
type Config struct {
	Listen string `yaml:"listen"` // address:port of the frontend
	Folder string `yaml:"folder"` // the key of task tokens, the last list of revocations, the file of SQLite

	Authority   string `yaml:"authority"`   // folder of strongroom's certificate authority; or
	Certificate string `yaml:"certificate"` // file of strongroom certificate temporal
	Insecure    bool   `yaml:"insecure"`    // neither: everybody on this machine may do everything. For tests

	Revocations struct {
		Gateway string        `yaml:"gateway"` // URL of a gateway, which has the list; or
		File    string        `yaml:"file"`
		Every   time.Duration `yaml:"every"`
	} `yaml:"revocations"`

	Database struct {
		URLFile       string `yaml:"url_file"` // file with PostgreSQL's postgres://…; empty: SQLite, in the folder
		Visibility    string `yaml:"visibility"`
		HistoryShards int32  `yaml:"history_shards"` // never changes again
		Connections   int    `yaml:"connections"`
	} `yaml:"database"`

	Namespaces []Namespace `yaml:"namespaces"`

	UI struct {
		Listen string `yaml:"listen"` // address:port; empty: none
	} `yaml:"ui"`

	Dynamic map[string]any `yaml:"dynamic"` // Temporal's dynamic configuration
}

// Namespace is made when there is none of its name.
type Namespace struct {
	Name             string            `yaml:"name"`
	Retention        time.Duration     `yaml:"retention"`         // of what ended
	SearchAttributes map[string]string `yaml:"search_attributes"` // name to type; strongroom migrate makes its own
}

func loadConfig(path string) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cfg := &Config{Listen: "127.0.0.1:7233", Folder: "/var/lib/strongroom-temporal"}
	cfg.Revocations.Every = 10 * time.Second
	cfg.Database.HistoryShards, cfg.Database.Connections = 512, 20
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true) // a key that is written wrong would leave its default in force
	if err := decoder.Decode(cfg); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(cfg.Namespaces) == 0 {
		cfg.Namespaces = []Namespace{{Name: "default"}}
	}
	for i := range cfg.Namespaces {
		if cfg.Namespaces[i].Retention == 0 {
			cfg.Namespaces[i].Retention = 72 * time.Hour
		}
	}
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cfg, nil
}

func (c *Config) check() error {
	listen, err := netip.ParseAddrPort(c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if c.UI.Listen != "" {
		if _, err := netip.ParseAddrPort(c.UI.Listen); err != nil {
			return fmt.Errorf("ui.listen: %w", err)
		}
	}
	given := 0
	for _, yes := range []bool{c.Authority != "", c.Certificate != "", c.Insecure} {
		if yes {
			given++
		}
	}
	if given != 1 {
		return errors.New("one of authority, certificate and insecure must be given")
	}
	if c.Insecure && !listen.Addr().IsLoopback() {
		return errors.New("insecure: only on a loopback address")
	}
	if c.Revocations.Gateway != "" && !strings.HasPrefix(c.Revocations.Gateway, "https://") {
		return errors.New("revocations.gateway: an https:// URL")
	}
	if c.Revocations.Every <= 0 {
		return errors.New("revocations.every: a duration")
	}
	return os.MkdirAll(c.Folder, 0o700)
}

func (c *Config) names() (out []string) {
	for _, n := range c.Namespaces {
		out = append(out, n.Name)
	}
	return out
}

func (c *Config) sqliteFile() string { return filepath.Join(c.Folder, "temporal.db") }

func (c *Config) listenOn() (ip string, port int) {
	a := netip.MustParseAddrPort(c.Listen) // check has looked
	return a.Addr().String(), int(a.Port())
}

// claimed are the ports that this process was given. It has each by a name of Linux's abstract sockets, which goes with it, so that another one
// that starts at the same moment on this machine takes others.
var claimed []net.Listener

// freePort is one for Temporal's inner services, which this machine alone reaches. It lies below those that the
// kernel hands out to clients (from 32768 on): one of these may be a connection's by the time that the service
// listens.
func freePort() (int, error) {
	const first, last, attempts = 16000, 20000, 1000
	var err error
	for range attempts {
		port := first + rand.IntN(last-first) //nolint:gosec // a port is no secret
		var name, l net.Listener
		if name, err = net.Listen("unix", "@strongroom-port-"+strconv.Itoa(port)); err != nil {
			continue
		}
		if l, err = net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port))); err != nil {
			_ = name.Close()
			continue
		}
		claimed = append(claimed, name)
		return port, l.Close()
	}
	return 0, fmt.Errorf("no port is free between %d and %d: %w", first, last, err)
}
