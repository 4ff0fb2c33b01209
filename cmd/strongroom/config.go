package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"

	"strongroom/activities/domain"
	"strongroom/activities/openstack/keystone"
	"strongroom/activities/tpm"
	"strongroom/compute"
)

// Config is the configuration file. Every key can be overridden by an
// environment variable: STRONGROOM_ and the path with __ between its parts,
// as in STRONGROOM_API__LISTEN. No key holds a secret: files do.
type Config struct {
	Database struct {
		URL string `koanf:"url"` // postgres://user@host/name; the password comes from ~/.pgpass or PGPASSFILE
	} `koanf:"database"`
	Temporal struct {
		Address   string `koanf:"address"`   // host:port
		Namespace string `koanf:"namespace"` // default
		UI        string `koanf:"ui"`        // where operators find the web UI

		TLS struct {
			Authority   string `koanf:"authority"`   // file: whose certificate Temporal must have
			Certificate string `koanf:"certificate"` // file: what Temporal is shown
			Key         string `koanf:"key"`         // file: its key
			ServerName  string `koanf:"server_name"` // in Temporal's certificate
			Own         bool   `koanf:"own"`         // instead: strongroom's own certificates, as strongroom-temporal knows them
		} `koanf:"tls"` // none of it: clear text
	} `koanf:"temporal"`
	Identity IdentityConfig `koanf:"identity"`
	API      struct {
		Listen     string `koanf:"listen"`
		PolicyFile string `koanf:"policy_file"`
		VolumeType string `koanf:"volume_type"` // name of the default volume type

		CinderEndpoint string `koanf:"cinder_endpoint"` // of a Cinder, which then has volume types and all of block storage; empty: there is none

		Connections    int      `koanf:"connections"`     // to the database, at most
		PublicURL      string   `koanf:"public_url"`      // of the links in answers; empty: as each request names it
		TrustedProxies []string `koanf:"trusted_proxies"` // networks whose headers are believed
		ProxyHeader    string   `koanf:"proxy_header"`    // which of their headers: x-forwarded or forwarded

		ForceConfigDrive bool `koanf:"force_config_drive"` // every new server has one
		MaxImageDiskGB   int  `koanf:"max_image_disk_gb"`  // how large a disk may be that takes its image's size

		AllowResizeToSameHost bool `koanf:"allow_resize_to_same_host"` // a resize may leave the server on its host
		ResizeConfirmWindow   int  `koanf:"resize_confirm_window"`     // seconds after which a resize or a migration is confirmed by itself; 0: never
		ShelvedOffloadTime    int  `koanf:"shelved_offload_time"`      // seconds that a shelved server stays on its host; -1: until it is offloaded
	} `koanf:"api"`
	Quota   QuotaConfig `koanf:"quota"`
	Control struct {
		Drain     time.Duration `koanf:"drain"`     // how long an older version waits for its operations
		Retention time.Duration `koanf:"retention"` // of deleted servers in the database; 0: for ever

		ImageKeyInterval time.Duration `koanf:"image_key_interval"`  // how often an image with a key is looked at; 0: never
		ImageKeyGrace    time.Duration `koanf:"image_key_grace"`     // how long the key stays when its image is gone
		ImageKeyMostGone int           `koanf:"image_key_most_gone"` // percent of the images that may be gone at once

		TPMBackupInterval time.Duration `koanf:"tpm_backup_interval"` // how often the state of vTPMs is backed up, and whether at a stop; 0: never

		ShareInterval   time.Duration `koanf:"share_interval"`    // how often a share that a server has is looked at; 0: never
		ShareMostMissed int           `koanf:"share_most_missed"` // percent of them that may be missed at once
	} `koanf:"control"`
	Metadata struct {
		Listen       string `koanf:"listen"`
		SharedSecret string `koanf:"proxy_shared_secret"` // file of the secret that Neutron's metadata agent signs with
		LocalPort    int    `koanf:"local_port"`          // at the gateways of networks.local, for their guests; 0: none
	} `koanf:"metadata"`
	ConsoleProxy struct {
		Listen         string        `koanf:"listen"`
		PublicURL      string        `koanf:"public_url"`      // as browsers reach it; empty: the API offers no consoles
		Certificate    string        `koanf:"certificate"`     // file: what browsers are shown; empty: clear text, for a load balancer that speaks TLS
		Key            string        `koanf:"key"`             // file: its key
		Identity       string        `koanf:"identity"`        // file: what hosts are shown, as strongroom authority issue console-proxy prints it
		TokenTTL       time.Duration `koanf:"token_ttl"`       // how long a token is good that is not used
		AllowedOrigins []string      `koanf:"allowed_origins"` // of other pages that may open consoles: a dashboard's
		XTerm          string        `koanf:"xterm"`           // folder of Debian's node-xterm
		NoVNC          string        `koanf:"novnc"`           // folder of Debian's novnc
	} `koanf:"console_proxy"`
	Keys struct {
		Backend string `koanf:"backend"` // local or barbican
		Path    string `koanf:"path"`    // local: the folder of sealed files
		Master  string `koanf:"master"`  // local: the file of the master key

		Endpoint   string   `koanf:"endpoint"`   // barbican: its address; empty: the catalog's
		Region     string   `koanf:"region"`     // barbican: whose endpoint; empty: identity.region
		Interfaces []string `koanf:"interfaces"` // barbican: the first that the catalog has; none: identity.interface
	} `koanf:"keys"`
	Images struct {
		Backend string `koanf:"backend"` // local or glance
		Path    string `koanf:"path"`

		Endpoint   string   `koanf:"endpoint"`   // glance: its address; empty: the catalog's
		Region     string   `koanf:"region"`     // glance: whose endpoint; empty: identity.region
		Interfaces []string `koanf:"interfaces"` // glance: the first that the catalog has; none: identity.interface
	} `koanf:"images"`
	Objects struct {
		Backend string `koanf:"backend"` // local or swift
		Path    string `koanf:"path"`

		Endpoint   string   `koanf:"endpoint"`   // swift: its address; empty: the catalog's
		Region     string   `koanf:"region"`     // swift: whose endpoint; empty: identity.region
		Interfaces []string `koanf:"interfaces"` // swift: the first that the catalog has; none: identity.interface
	} `koanf:"objects"`
	Shares struct {
		Backend string `koanf:"backend"` // local, manila, or none
		Path    string `koanf:"path"`

		Endpoint   string   `koanf:"endpoint"`   // manila: its address; empty: the catalog's
		Region     string   `koanf:"region"`     // manila: whose endpoint; empty: identity.region
		Interfaces []string `koanf:"interfaces"` // manila: the first that the catalog has; none: identity.interface
	} `koanf:"shares"`
	Networks struct {
		Backend string `koanf:"backend"` // neutron, local, or none: servers have networks of their hosts

		Endpoint   string   `koanf:"endpoint"`   // neutron: its address; empty: the catalog's
		Region     string   `koanf:"region"`     // neutron: whose endpoint; empty: identity.region
		Interfaces []string `koanf:"interfaces"` // neutron: the first that the catalog has; none: identity.interface

		VIFPluggingTimeout time.Duration `koanf:"vif_plugging_timeout"`  // how long a create waits until its ports are active; 0: not at all
		VIFPluggingIsFatal bool          `koanf:"vif_plugging_is_fatal"` // it fails then

		Local []LocalNetworkConfig `koanf:"local"` // local: the networks that there are
		Ports int                  `koanf:"ports"` // local: how many a project may have; -1: any number
	} `koanf:"networks"`
	Notifications struct {
		URL          string   `koanf:"url"`           // of a RabbitMQ: amqp://user@host:5672/, or amqps; empty: nobody is notified
		PasswordFile string   `koanf:"password_file"` // of its user
		Authority    string   `koanf:"authority"`     // amqps: file of the authority of its certificate; empty: the system's
		Exchange     string   `koanf:"exchange"`
		Topics       []string `koanf:"topics"`

		NotifyOnStateChange   string `koanf:"notify_on_state_change"`  // vm_state or vm_and_task_state: servers' changes are told; empty: they are not
		IncludeShareMapping   bool   `koanf:"include_share_mapping"`   // servers' shares are told
		IncludeExportLocation bool   `koanf:"include_export_location"` // and where these are exported
	} `koanf:"notifications"`
	Trusts struct {
		Backend string   `koanf:"backend"` // local or keystone
		Path    string   `koanf:"path"`
		Roles   []string `koanf:"roles"` // which of its owner's roles a trust delegates
	} `koanf:"trusts"`
	Credentials struct {
		Key        string   `koanf:"key"`         // file of the keys that seal tokens in the database
		Roles      []string `koanf:"roles"`       // with any of which a token may remove keys of its project
		OtherRoles []string `koanf:"other_roles"` // that a token which is kept for that may have besides
	} `koanf:"credentials"`
	Legacy struct {
		Cipher  string `koanf:"cipher"`   // how dm-crypt encrypted the disks of servers with a legacy key
		KeySize int    `koanf:"key_size"` // bits
		Hash    string `koanf:"hash"`     // of the passphrase, by cryptsetup
	} `koanf:"legacy"`
	Gateway struct {
		Listen    string `koanf:"listen"`
		Authority string `koanf:"authority"` // folder of the certificate authority, for gateways and apis
		Endorser  string `koanf:"endorser"`  // folder of the authority that certifies endorsement keys of vTPMs; "": nobody does
	} `koanf:"gateway"`
	Host     HostConfig     `koanf:"host"`
	DevCloud DevCloudConfig `koanf:"devcloud"`
}

// IdentityConfig is how strongroom itself logs in to Keystone v3.
type IdentityConfig struct {
	AuthURL      string `koanf:"auth_url"`
	Username     string `koanf:"username"`
	PasswordFile string `koanf:"password_file"`
	Project      string `koanf:"project"`
	Domain       string `koanf:"domain"`
	Region       string `koanf:"region"`
	Interface    string `koanf:"interface"` // of the catalog's endpoints: public, internal or admin

	// How Keystone and all services of the catalog are reached; the names are those of clouds.yaml and keystoneauth.
	CAFile         string        `koanf:"cafile"`          // authorities beside the system's
	CertFile       string        `koanf:"certfile"`        // what services are shown
	KeyFile        string        `koanf:"keyfile"`         // its key
	Insecure       bool          `koanf:"insecure"`        // any certificate is taken
	ConnectTimeout time.Duration `koanf:"connect_timeout"` // until there is a connection
	Timeout        time.Duration `koanf:"timeout"`         // that a service may be silent
}

// connection is how the services of the cloud are reached.
func (c IdentityConfig) connection() (keystone.Connection, error) {
	for key, value := range map[string]time.Duration{"connect_timeout": c.ConnectTimeout, "timeout": c.Timeout} {
		if value != 0 && (value < time.Second || value > keystone.MostSilence) {
			return keystone.Connection{}, fmt.Errorf("identity.%s: %s: it must be 1s to %s, with its unit", key, value, keystone.MostSilence)
		}
	}
	return keystone.Connection{
		CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile, Insecure: c.Insecure, Connect: c.ConnectTimeout, Silence: c.Timeout,
	}, nil
}

// QuotaConfig is how much projects may hold: -1 is no limit.
type QuotaConfig struct {
	Backend   string `koanf:"backend"` // keystone: its unified limits go before those here; local: there are only those here
	Service   string `koanf:"service"` // keystone: id of the service that has the limits; empty: the one of the type compute
	Instances int64  `koanf:"instances"`
	Cores     int64  `koanf:"cores"`
	RAM       int64  `koanf:"ram"`  // MiB
	Disk      int64  `koanf:"disk"` // GiB

	ServerGroups       int64 `koanf:"server_groups"`
	ServerGroupMembers int64 `koanf:"server_group_members"` // of one user in a group
	KeyPairs           int64 `koanf:"key_pairs"`            // of one user
}

// HostConfig is what a compute host needs to know.
type HostConfig struct {
	IDFile           string          `koanf:"id_file"` // holds the host's uuid; made at the first start
	Name             string          `koanf:"name"`
	Gateway          string          `koanf:"gateway"`         // https://host:port of the gateway, or of a load balancer that passes TCP on to several
	Certificate      string          `koanf:"certificate"`     // folder of the host's certificate and keys
	Instances        string          `koanf:"instances"`       // servers' folders
	ShareInstances   bool            `koanf:"share_instances"` // other hosts may have the same folder
	ImageCache       string          `koanf:"image_cache"`
	ImageCacheMB     int64           `koanf:"image_cache_mb"` // that the images may take; 0: 40 % of their file system
	VolumeGroup      string          `koanf:"volume_group"`   // of LVM, for disks of the formats luksv2 and plain
	RBD              RBDConfig       `koanf:"rbd"`            // for all other disks
	SecureState      string          `koanf:"secure_state"`   // where the encrypted volume with its state is mounted; empty: it has none
	Shares           string          `koanf:"shares"`         // where shares are mounted; empty: servers here have none
	ShareAddress     string          `koanf:"share_address"`  // by which storage of NFS lets the host in; empty: it mounts no NFS
	Encryption       DiskEncryption  `koanf:"ephemeral_storage_encryption"`
	Run              string          `koanf:"run"` // serial sockets; a short path
	LibvirtSocket    string          `koanf:"libvirt_socket"`
	VNC              bool            `koanf:"vnc"`       // machines have a screen
	VirtType         string          `koanf:"virt_type"` // kvm, qemu, or empty: kvm where a guest really starts with it
	SwtpmEnabled     bool            `koanf:"swtpm_enabled"`
	SwtpmState       string          `koanf:"swtpm_state"`
	SwtpmOnVolume    bool            `koanf:"swtpm_on_volume"` // the states of vTPMs are on the volume at SecureState, if there is one
	SuspendState     string          `koanf:"suspend_state"`   // libvirt's folder with the memory of suspended guests; "": it is not on the volume
	SwtpmUser        string          `koanf:"swtpm_user"`      // whose state is that strongroom lays down
	SwtpmGroup       string          `koanf:"swtpm_group"`
	KeepGuestKeys    string          `koanf:"keep_guest_keys"` // in the kernel's keyring, while guests run: none, tpm or all
	Address          string          `koanf:"address"`         // shown as host_ip
	AgentListen      string          `koanf:"agent_listen"`
	AgentURL         string          `koanf:"agent_url"`
	AvailabilityZone string          `koanf:"availability_zone"`
	CPURatio         float64         `koanf:"cpu_ratio"`
	MemoryRatio      float64         `koanf:"memory_ratio"`
	DiskRatio        float64         `koanf:"disk_ratio"`
	ReservedMemoryMB int             `koanf:"reserved_memory_mb"`
	Networks         []NetworkConfig `koanf:"networks"`
	TrafficFilter    string          `koanf:"traffic_filter"`  // of guests: required, optional or off
	SparePCIPorts    int             `koanf:"spare_pci_ports"` // of each machine, for interfaces that are plugged in while it runs
	UnplugTimeout    time.Duration   `koanf:"unplug_timeout"`  // that a guest may take to give a device up
	ResumeGuests     bool            `koanf:"resume_guests_state_on_host_boot"`
	FenceAfter       int             `koanf:"fence_after"` // seconds without an answer of a gateway after which guests are stopped; 0: they go on
	BootID           string          `koanf:"boot_id"`     // a file that has other content after each boot
}

// DiskEncryption is how a host encrypts disks where neither flavor nor image says it (EE-03).
type DiskEncryption struct {
	DefaultFormat string `koanf:"default_format"` // luks, luksv2 or plain
}

// RBDConfig is the Ceph pool in which a host keeps the disks of its servers.
type RBDConfig struct {
	Pool    string `koanf:"pool"` // empty: disks are files
	User    string `koanf:"user"` // of Ceph, without "client."
	Conf    string `koanf:"conf"` // readable for QEMU's user
	Keyring string `koanf:"keyring"`
}

// NetworkConfig is a network that servers of this host can be attached to.
type NetworkConfig struct {
	UUID    string `koanf:"uuid"`    // what users name
	Network string `koanf:"network"` // a libvirt network, or
	Bridge  string `koanf:"bridge"`  // a bridge of the host
	// Projects are those whose servers may be attached; empty: all.
	Projects []string `koanf:"projects"`
}

// DevCloudConfig is the identity and image service of the embedded default.
type DevCloudConfig struct {
	Listen   string `koanf:"listen"` // loopback only
	Users    string `koanf:"users"`
	TokenKey string `koanf:"token_key"`
}

const envPrefix = "STRONGROOM_"

// loadConfig reads the file, then the environment, over the defaults.
func loadConfig(path string) (*Config, error) {
	k := koanf.New(".")
	if path != "" {
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		if err := onlyKeys(k); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
	}
	err := k.Load(env.Provider(".", env.Opt{Prefix: envPrefix, TransformFunc: func(key, value string) (string, any) {
		return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(key, envPrefix)), "__", "."), value
	}}), nil)
	if err != nil {
		return nil, err
	}
	cfg := defaults()
	if err := k.Unmarshal("", cfg); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return cfg, nil
}

// onlyKeys refuses a key that there is none of: one that is written wrong would
// leave its default in force, unnoticed.
func onlyKeys(k *koanf.Koanf) error {
	var found mapstructure.Metadata
	err := k.UnmarshalWithConf("", &Config{}, koanf.UnmarshalConf{
		DecoderConfig: &mapstructure.DecoderConfig{WeaklyTypedInput: true, Metadata: &found, DecodeHook: mapstructure.StringToTimeDurationHookFunc()},
	})
	if err == nil && len(found.Unused) > 0 {
		slices.Sort(found.Unused)
		err = fmt.Errorf("there is no such key: %s", strings.Join(found.Unused, ", "))
	}
	return err
}

func defaults() *Config {
	cfg := &Config{}
	cfg.Temporal.Address, cfg.Temporal.Namespace = "127.0.0.1:7233", "default"
	cfg.API.Listen, cfg.API.VolumeType = "127.0.0.1:8774", "__DEFAULT__"
	cfg.API.Connections = 30
	cfg.Quota = QuotaConfig{Backend: "local", Instances: 10, Cores: 20, RAM: 51200, Disk: 1000, ServerGroups: 10, ServerGroupMembers: 10, KeyPairs: 100}
	cfg.Control.Drain = 10 * time.Minute
	cfg.Control.Retention = 90 * 24 * time.Hour
	cfg.Control.ImageKeyInterval, cfg.Control.ImageKeyGrace, cfg.Control.ImageKeyMostGone = time.Hour, 24*time.Hour, 20
	cfg.Control.ShareInterval, cfg.Control.ShareMostMissed = 10*time.Minute, 20
	cfg.Metadata.Listen, cfg.Metadata.SharedSecret = "127.0.0.1:8775", "/etc/strongroom/metadata.secret"
	cfg.ConsoleProxy.Listen, cfg.ConsoleProxy.TokenTTL = "127.0.0.1:6080", 10*time.Minute
	cfg.ConsoleProxy.Identity = "/etc/strongroom/console-proxy.pem"
	cfg.ConsoleProxy.XTerm, cfg.ConsoleProxy.NoVNC = "/usr/share/nodejs/xterm", "/usr/share/novnc"
	cfg.Keys.Backend, cfg.Keys.Path, cfg.Keys.Master = "local", "/var/lib/strongroom/keys", "/etc/strongroom/master.key"
	cfg.Images.Backend, cfg.Images.Path = "local", "/var/lib/strongroom/images"
	cfg.Objects.Backend, cfg.Objects.Path = "local", "/var/lib/strongroom/objects"
	cfg.Shares.Backend, cfg.Shares.Path = "none", "/var/lib/strongroom/shares"
	cfg.Networks.Backend, cfg.Networks.VIFPluggingTimeout, cfg.Networks.VIFPluggingIsFatal = "none", 5*time.Minute, true
	cfg.Networks.Ports = -1
	cfg.Notifications.Exchange, cfg.Notifications.Topics = "nova", []string{"versioned_notifications"}
	cfg.Trusts.Backend, cfg.Trusts.Path, cfg.Trusts.Roles = "local", "/var/lib/strongroom/trusts", []string{"creator", "member"}
	cfg.Credentials.Key = "/etc/strongroom/credentials.key"
	cfg.Credentials.Roles, cfg.Credentials.OtherRoles = []string{"creator"}, []string{"member", "reader"}
	cfg.Gateway.Listen, cfg.Gateway.Authority = "127.0.0.1:8777", "/etc/strongroom/ca"
	cfg.Legacy.Cipher, cfg.Legacy.KeySize = compute.DefaultLegacyEncryption.Cipher, compute.DefaultLegacyEncryption.KeySize
	cfg.Legacy.Hash = compute.DefaultLegacyEncryption.Hash
	cfg.Identity.Domain, cfg.Identity.Region, cfg.Identity.Interface = "Default", "RegionOne", "public"
	cfg.Identity.ConnectTimeout, cfg.Identity.Timeout = 10*time.Second, 2*time.Minute
	name, _ := os.Hostname()
	cfg.Host = HostConfig{
		IDFile: "/var/lib/strongroom/host.id", Name: name, Gateway: "https://127.0.0.1:8777", Certificate: "/var/lib/strongroom/certificate",
		Instances:  "/var/lib/strongroom/instances",
		ImageCache: "/var/lib/strongroom/cache", Run: "/run/strongroom", LibvirtSocket: "/run/libvirt/libvirt-sock",
		SwtpmEnabled: true, SwtpmOnVolume: true, KeepGuestKeys: keepTPM, SwtpmState: tpm.DefaultSwtpmDir, SuspendState: domain.DefaultSaveDir, SwtpmUser: tpm.DefaultUser, SwtpmGroup: tpm.DefaultGroup, Address: "127.0.0.1", AgentListen: "127.0.0.1:8776", AgentURL: "https://127.0.0.1:8776",
		AvailabilityZone: "nova", CPURatio: 16, MemoryRatio: 1, DiskRatio: 1, TrafficFilter: filterRequired,
		VNC: true, SparePCIPorts: 4, UnplugTimeout: 2 * time.Minute,
		BootID:     "/proc/sys/kernel/random/boot_id",
		Encryption: DiskEncryption{DefaultFormat: string(compute.DefaultDiskFormat)},
		RBD:        RBDConfig{User: "strongroom", Conf: "/etc/ceph/ceph.conf", Keyring: "/etc/ceph/ceph.client.strongroom.keyring"},
	}
	return cfg
}

// secretFile reads a key or password from a file that only its owner may read.
func secretFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others: chmod 600 it", path)
	}
	text, err := os.ReadFile(path)
	return []byte(strings.TrimSpace(string(text))), err
}
