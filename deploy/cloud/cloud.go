// Package cloud runs real OpenStack services on this machine, for tests and
// trials: Keystone, Barbican, Glance, Swift and Manila (with its dummy back end and
// CephFS), and on demand Cinder's API and Neutron with OVN, from the distribution's packages, on loopback, with
// a PostgreSQL and a Ceph of their own and everything they keep in one folder. No file of /etc is read
// or written, and no message broker runs but for Linux bridges.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"strongroom/deploy/cloud/ceph"
	"strongroom/deploy/cloud/ovn"
	"strongroom/deploy/dev/forward"
	"strongroom/deploy/dev/postgres"
	"strongroom/deploy/dev/process"
)

// Cinder is the service of Cinder's API. No volume service runs behind it: it is what the
// volume types API is compared with.
const Cinder = "cinder"

// NFS is a back end of Manila's that exports folders by nfs-ganesha, at its port NFS of 127.0.0.1; shares say that
// they are at NFS's own, 2049. Needs root.
const NFS = "nfs"

// All are the services. With ceph, Manila has shares of CephFS beside those of its
// dummy back end.
var All = []string{"manila", "glance", "swift", "barbican", "keystone", "ceph", Cinder, Neutron, Broker, NFS}

// Default gives the services that can run on this machine: All, without Manila and Ceph where
// their packages are not installed, and without Cinder, Neutron, its broker and NFS.
func Default() []string {
	_, err := os.Stat("/usr/lib/python3/dist-packages/manila")
	return slices.DeleteFunc(slices.Clone(All), func(name string) bool {
		return name == Cinder || name == Neutron || name == Broker || name == NFS || name == "ceph" && !ceph.Installed() || name == "manila" && err != nil
	})
}

// ManilaRootVariable is the environment variable of Config.ManilaRoot in tests.
const ManilaRootVariable = "STRONGROOM_TEST_MANILA_ROOT"

// Config says what to run.
type Config struct {
	// Dir holds all state, mode 0711. A folder that an earlier cloud left is gone
	// on with, under the same ports and passwords. Its path must be short (at most
	// 70 bytes), and the user postgres must be able to pass through the folders
	// above it.
	Dir      string
	Services []string // nil: Default. Keystone always runs.
	// Strongroom is the base URL under which the catalog names this project's own
	// API, as compute and volumev3; default http://127.0.0.1:8774.
	Strongroom string
	// Guests lets Neutron have this machine, by its host name, in place of Hosts: guests here can be plugged into its
	// switch, and Strongroom is told what becomes of their ports. One cloud of a machine can have it.
	Guests bool
	// TokenExpiry is how long a token lives (default 1 h), ExpiredWindow how long
	// after that it is good beside a service token (default 48 h).
	TokenExpiry, ExpiredWindow time.Duration
	// TokenCache is how long a service trusts a token without asking Keystone
	// again; 0 asks each time, so that a revoked token is refused at once.
	TokenCache time.Duration
	// ImageHash is the algorithm of Glance's os_hash_value; default sha512, as
	// Glance's own.
	ImageHash string
	// BarbicanPolicy are rules of Barbican's policy in place of its own; see
	// Cloud.SetBarbicanPolicy.
	BarbicanPolicy map[string]string
	// ManilaRoot is a folder of deploy/cloud/manila-root: Manila runs from there, in
	// a mount namespace of its own, and is newer than this machine's. Needs root.
	ManilaRoot string
	Logger     *slog.Logger
}

// TestTokenCache is the TokenCache of the clouds that tests share: so long a test waits until services know that a token
// was revoked.
const TestTokenCache = 10 * time.Second

// Cloud is a running cloud.
type Cloud struct {
	cfg       Config
	settings  settings
	database  *postgres.Server
	storage   *ceph.Cluster
	network   *ovn.Network
	added     []string // hosts of AddHost
	forwards  []*forward.Forwarder
	brokers   []*process.Process
	processes map[string]*process.Process
}

// Start starts the services and returns once all of them answer. What another
// process runs in the same folder is left alone: the error is process.ErrInUse.
func Start(ctx context.Context, cfg Config) (*Cloud, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("cloud: %w", err)
	}
	begin := time.Now()
	c := &Cloud{cfg: cfg, processes: map[string]*process.Process{}}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("cloud: %w", err), c.Stop(context.WithoutCancel(ctx)))
	}
	cfg.Logger.Info("the cloud is up", "auth_url", c.AuthURL(), "clouds", c.CloudsFile(), "after", time.Since(begin).Round(time.Millisecond))
	return c, nil
}

func (cfg Config) complete() (Config, error) {
	if len(cfg.Dir) > 70 || !filepath.IsAbs(cfg.Dir) {
		return cfg, fmt.Errorf("the folder %q must be an absolute path of at most 70 bytes", cfg.Dir)
	}
	if cfg.Services == nil {
		cfg.Services = Default()
	}
	for _, name := range cfg.Services {
		if !slices.Contains(All, name) {
			return cfg, fmt.Errorf("unknown service %q: there are %q", name, All)
		}
	}
	if cfg.ManilaRoot != "" {
		if _, err := os.Stat(filepath.Join(cfg.ManilaRoot, "usr/lib/python3/dist-packages/manila")); err != nil || !filepath.IsAbs(cfg.ManilaRoot) {
			return cfg, fmt.Errorf("%q is no folder, with its whole path, that deploy/cloud/manila-root made", cfg.ManilaRoot)
		}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct{ value, otherwise *time.Duration }{
		{&cfg.TokenExpiry, new(time.Hour)}, {&cfg.ExpiredWindow, new(48 * time.Hour)},
	} {
		if *d.value == 0 {
			*d.value = *d.otherwise
		}
	}
	if cfg.Strongroom == "" {
		cfg.Strongroom = "http://127.0.0.1:8774"
	}
	if cfg.ImageHash == "" {
		cfg.ImageHash = "sha512"
	}
	return cfg, nil
}

func (c *Cloud) start(ctx context.Context) error {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	// The services import their code while the database and Ceph are made: they wait
	// for the files that say it is there. The group's context ends what waits when
	// one fails; the processes themselves outlive it.
	group, starting := errgroup.WithContext(ctx)
	group.Go(func() error { return c.startDatabase(starting) })
	if c.runs("ceph") {
		group.Go(func() error { return c.startCeph(starting) })
	}
	if c.runs(Neutron) {
		start := c.startOVN
		if c.runs(Broker) {
			start = c.startBroker
		}
		group.Go(func() error { return start(starting) })
	}
	for _, s := range c.services() {
		p, err := process.Start(ctx, s.process)
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		c.processes[s.name] = p
		group.Go(func() error { return c.ready(starting, s, p) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := c.awaitChassis(ctx); err != nil {
		return err
	}
	if err := c.loadPolicy(ctx); err != nil {
		return err
	}
	return c.makeAccounts(ctx)
}

// AuthURL is the identity API, version 3.
func (c *Cloud) AuthURL() string { return c.url("keystone") + "/v3" }

// CloudsFile is a clouds.yaml, mode 0600, with one cloud per user, named as the
// user, and user-project for a user's further projects.
func (c *Cloud) CloudsFile() string { return filepath.Join(c.cfg.Dir, "clouds.yaml") }

// Port is what a service listens on.
func (c *Cloud) Port(service string) int { return c.settings.Ports[service] }

// Process is the running process of a service, for tests that stop one.
func (c *Cloud) Process(service string) *process.Process { return c.processes[service] }

// barbicanPolicy is Barbican's policy file.
const barbicanPolicy = "etc/barbican-policy.yaml"

// NoAdminReads are the rules of a cloud whose projects' administrators may not read the secrets
// that users keep to themselves: secret:decrypt without secret_project_admin. They may still
// delete them.
var NoAdminReads = map[string]string{
	"secret:decrypt": "rule:secret_decrypt_non_private_read or rule:secret_project_creator or rule:secret_acl_read",
}

// NewDefaults are the rules for secrets of a Barbican with [oslo_policy] enforce_new_defaults, as its
// newer releases are: the role member of a project counts and no longer creator, and a secret's
// ACL is shown to its owner and the project's administrators alone.
var NewDefaults = map[string]string{
	"secrets:get":           "role:member",
	"secrets:post":          "role:member",
	"secret:get":            newOwners + " or " + newMembers + " or rule:secret_acl_read",
	"secret:decrypt":        newOwners + " or " + newMembers + " or rule:secret_acl_read",
	"secret:put":            newOwners + " or " + newMembers,
	"secret:delete":         newOwners + " or " + newMembers,
	"secret_acls:get":       newOwners + " or " + newMembers, // Barbican knows of no access here: members get none
	"secret_acls:put_patch": newOwners + " or " + newMembers,
	"secret_acls:delete":    newOwners + " or " + newMembers,
}

const (
	newOwners  = "rule:secret_project_admin or (rule:secret_project_member and rule:secret_owner)"
	newMembers = "(rule:secret_project_member and rule:secret_is_not_private)"
)

// SetBarbicanPolicy sets rules of Barbican's policy in place of its own, which all others
// are. The next request meets them: no service is started again.
func (c *Cloud) SetBarbicanPolicy(rules map[string]string) error {
	if rules == nil {
		rules = map[string]string{}
	}
	return writeJSON(c.file(barbicanPolicy), rules) // JSON is YAML
}

// Stop stops all services, what they depend on last, and returns once they are gone.
// The state stays in the folder.
func (c *Cloud) Stop(ctx context.Context) error {
	var group errgroup.Group
	for _, p := range c.processes {
		group.Go(func() error { return p.Stop(ctx) })
	}
	err := errors.Join(group.Wait(), c.hideSwitch(), c.removeProxies(ctx), c.stopBroker(ctx))
	if c.database != nil {
		err = errors.Join(err, c.database.Stop(ctx))
	}
	if c.storage != nil {
		err = errors.Join(err, c.storage.Stop(ctx))
	}
	if c.network != nil {
		err = errors.Join(err, c.network.Stop(ctx))
	}
	for _, name := range []string{databasesMade, cephMade, networksMade} {
		if gone := os.Remove(c.file(name)); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}
