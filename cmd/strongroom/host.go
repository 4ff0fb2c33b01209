package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/domain/keyring"
	"strongroom/activities/image"
	"strongroom/activities/imagefile"
	"strongroom/activities/mount"
	"strongroom/activities/object"
	"strongroom/activities/tpm"
	"strongroom/activities/volume"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/worker"
	"strongroom/worker/agent"
	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

type hostCommand struct {
	Run    hostRun    `cmd:"" default:"1" help:"Run the host worker; strongroom host alone does the same."`
	List   hostList   `cmd:"" help:"List compute hosts (administrators)."`
	Show   hostShow   `cmd:"" help:"Show compute hosts: their room, state and drain (administrators)."`
	Enroll hostEnroll `cmd:"" help:"Get a certificate for this compute host, with a token."`
	Token  hostToken  `cmd:"" help:"Print a token with which a compute host can enroll, once."`
	Revoke hostRevoke `cmd:"" help:"Lock out a compute host: it gets no passphrase and no image any more."`
	Forget hostForget `cmd:"" help:"Mark a host as one that never comes back."`

	Watchdog hostWatchdog `cmd:"" help:"Stop this host's guests when no gateway answers it (host.fence_after)."`

	Drain   hostDrain   `cmd:"" help:"Move all servers away from a host, which takes no new ones."`
	Undrain hostUndrain `cmd:"" help:"Have a host that was drained take servers again."`

	SecureState hostSecureState `cmd:"" help:"Open, close or rekey the encrypted volume that has a host's own state."`
}

// Help is shown by --help.
func (hostCommand) Help() string {
	return `On a compute host, strongroom host runs the worker, once strongroom host enroll got it a
certificate, and strongroom host watchdog its watchdog. List and show ask the API, as an administrator; the other commands are for a
machine with access to the database: a controller.

  strongroom host list --long --os-cloud admin
  strongroom host drain compute1 --wait`
}

type hostRun struct{}

// Help is shown by --help.
func (hostRun) Help() string {
	return `Runs on a compute host, as root, beside libvirtd. It takes this host's work from
Temporal and reports the host to a gateway, of which it gets passphrases and images; it
may be killed and upgraded at any moment, guests go on. It also hands console logs to
the api, and consoles to the console proxy. It needs the configuration's parts temporal and host alone, and a certificate:
strongroom host enroll --help.`
}

func (hostRun) Run(r *run) error {
	cfg, err := r.config()
	if err != nil {
		return err
	}
	if err := errors.Join(cfg.Host.checkFenceAfter(), cfg.Host.checkState(), cfg.Host.checkPlugging(), cfg.Host.checkGuestKeys()); err != nil {
		return err
	}
	// From the beginning: without an answer the worker comes no further.
	lease := cfg.Host.lease()
	go cfg.Host.workersWatchdog(r, lease).Run(r)
	uuid, isNew, err := hostID(cfg.Host.IDFile)
	if err != nil {
		return err
	}
	id := compute.HostID{UUID: uuid}
	if cfg.Host.SecureState == "" {
		if err := cfg.Host.claimFolders(uuid, isNew); err != nil {
			return err
		}
	}
	folder := pki.Folder(cfg.Host.Certificate)
	own, keys, err := folder.Load()
	if err != nil {
		return err
	}
	if name, err := pki.NameOf(own.Cert()); err != nil || name != pki.HostName(id) {
		return fmt.Errorf("the certificate in %s is not that of host %s (%s): strongroom host enroll --replace gets one", cfg.Host.Certificate, id, cfg.Host.IDFile)
	}
	toGateway := gateway.Dial(cfg.Host.Gateway, own)
	passphrases := gateway.NewHostKeys(toGateway, id, keys)
	toHosts := agent.Client{Identity: own, Accepts: toGateway.Accepts}
	renewed := certificate{folder, id, own, toGateway, passphrases}
	renewed.renewIfDue(r) // before Temporal sees it: a connection keeps its certificate for minutes
	temporalKeys, err := passphrases.TemporalKeys(r)
	if err != nil {
		return fmt.Errorf("the gateway at %s: %w", cfg.Host.Gateway, err)
	}
	temporal, err := dialTemporal(cfg, func() (*pki.Identity, error) { return own, nil }, temporalKeys, r.log, durable.Dial)
	if err != nil {
		return err
	}
	defer temporal.Close()
	go renewed.keep(r)
	r, release, err := cfg.Host.useState(r, id, temporal, toGateway, passphrases)
	if errors.Is(err, context.Canceled) { // it was told to stop while it waited
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	if cfg.Host.SecureState != "" { // what is there is on its own volume, whether new or not
		if err := cfg.Host.claimFolders(uuid, true); err != nil {
			return err
		}
	}
	kept := openKeyring(r, cfg.Host, id)
	activities, err := openHostActivities(r, cfg.Host, toGateway, passphrases, agent.HandedKeys{
		KeySource: passphrases, Client: toHosts, Host: id, From: toGateway.HandedFrom, Open: passphrases.Open,
	}, kept, toHosts)
	if err != nil {
		return err
	}
	leased := cfg.Host.leased(r, toGateway, lease)
	err = worker.Host{
		ID: id, Name: cfg.Host.Name, Temporal: temporal, Gateway: leased, ReleaseLease: leased.Release,
		Activities:  []worker.ActivitySet{activities.disk, activities.domain, activities.tpm, activities.image, activities.mount},
		Describe:    func(ctx context.Context) (gateway.HostReport, error) { return activities.describe(ctx, cfg.Host) },
		PowerStates: activities.domain.PowerStates, CloseIdle: activities.domain.CloseIdle,
		Evict: activities.domain.Evict, NoAutostart: activities.domain.NoAutostart, ShieldShares: activities.mount.ShieldShares,
		Ready: func() error { return activities.serveAgent(r, cfg.Host, own, toGateway, kept) }, Logger: r.log, Interceptors: faultPoints(cfg.Host.Name),
	}.Run(r)
	if cause := context.Cause(r); cause != nil && !errors.Is(cause, context.Canceled) { // it leaves its volume, say: the next one waits for that
		return errors.Join(cause, err)
	}
	return err
}

// hostActivities are the activities of a host worker.
type hostActivities struct {
	image  *image.HostActivities
	disk   *disk.Activities
	domain *domain.Activities
	tpm    *tpm.Activities
	mount  *mount.Activities
	format compute.DiskFormat // of disks for which nobody asks for one

	storage         string // that servers' folders are on, where other hosts have it too
	noTPM, noShares string // why servers can have no vTPM here, and no shares, as it was told last
}

// confines fails where tenants' images could not be read safely: each create would fail.
func confines(r *run, h HostConfig) error {
	mark, err := os.Open(filepath.Join(h.Instances, volume.Mark))
	if err != nil {
		return err
	}
	defer func() { _ = mark.Close() }()
	return imagefile.CheckConfinement(r, mark)
}

// Which keys of guests a host keeps while they run, to hand them to the host that a guest goes to (host.keep_guest_keys).
const (
	keepNone = "none"
	keepTPM  = "tpm" // who moves a guest must have access to the keys of its disks (EE-30)
	keepAll  = "all"
)

func (h HostConfig) checkGuestKeys() error {
	switch h.KeepGuestKeys {
	case keepNone, keepTPM, keepAll:
		return nil
	}
	return fmt.Errorf("host.keep_guest_keys %q: it must be %s, %s or %s; what was true is %[4]s now, and what was false %[2]s", h.KeepGuestKeys, keepNone, keepTPM, keepAll)
}

// openKeyring gives what keeps the keys of guests that run; nil: none are kept here. What the host kept by an earlier setting, and is not to keep any more,
// goes.
func openKeyring(r *run, h HostConfig, id compute.HostID) *keyring.Keyring {
	var err error
	switch h.KeepGuestKeys {
	case keepNone:
		err = keyring.Of(id).Clear()
	case keepTPM:
		err = keyring.Of(id).ForgetDisks()
	}
	if err != nil {
		r.log.Warn("keys that this host kept by an earlier host.keep_guest_keys may be there still: it keeps none, and hands none on", "error", err)
	}
	if err != nil || h.KeepGuestKeys == keepNone {
		return nil
	}
	kept, err := keyring.Open(id)
	if err != nil {
		r.log.Warn("this host cannot keep the keys of guests: only who may read them can move a guest while it runs", "error", err)
	}
	return kept
}

func openHostActivities(r *run, h HostConfig, from *gateway.Client, exports mount.Exports, keys agent.HandedKeys, kept *keyring.Keyring, hosts agent.Client) (*hostActivities, error) {
	if err := confines(r, h); err != nil {
		return nil, err
	}
	images := gateway.HostImages{Client: from}
	disks, err := disk.New(disk.Config{
		InstancesDir: h.Instances, CacheDir: h.ImageCache, CacheBytes: h.ImageCacheMB << 20, VolumeGroup: h.VolumeGroup,
		Pool:   disk.Pool{Name: h.RBD.Pool, User: h.RBD.User, ConfFile: h.RBD.Conf, Keyring: h.RBD.Keyring},
		Images: images, Keys: keys, Metadata: from, Hosts: hosts, Objects: hostObjects{gateway.HostObjects(from)}, Logger: r.log,
	})
	if err != nil {
		return nil, err
	}
	client := &domain.Client{Socket: h.LibvirtSocket}
	virt, err := virtType(r, client, h)
	if err != nil {
		return nil, fmt.Errorf("libvirt at %s: %w", h.LibvirtSocket, err)
	}
	r.log.Info("guests run as", "virt_type", virt)
	filter, err := h.trafficFilter(r, client)
	if err != nil {
		return nil, err
	}
	tpms, err := openTPMs(h, from, hosts)
	if err != nil {
		return nil, err
	}
	if err := tpms.GiveFoldersToRoot(); err != nil {
		r.log.Warn("folders of the states of vTPMs stay swtpm's user's", "error", err)
	}
	domains, err := domain.New(domain.Config{
		Client: client, Keys: keys, Images: disks, Exports: disks, Devices: disks, TPMs: tpms, InstancesDir: h.Instances, RunDir: h.Run, VirtType: virt, SaveDir: h.SuspendState, EncryptedState: h.SecureState != "", VNC: h.VNC, Hosts: hosts, Overseer: from,
		Ceph:     domain.Ceph{User: h.RBD.User, ConfFile: h.RBD.Conf, Key: disks.ClusterKey},
		Networks: h.networks(), Filter: filter, Logger: r.log, SparePorts: h.SparePCIPorts, UnplugTimeout: h.UnplugTimeout,
	})
	if err != nil {
		return nil, err
	}
	if kept != nil {
		domains.Kept, domains.Comparable, domains.KeepsDisks = kept, from.Comparable, h.KeepGuestKeys == keepAll
	}
	if _, err := netip.ParseAddr(h.ShareAddress); err != nil && h.ShareAddress != "" {
		return nil, fmt.Errorf("host.share_address: %w", err)
	}
	mounts := &mount.Activities{}
	if h.Shares != "" {
		mounts, err = mount.New(mount.Config{Dir: h.Shares, Exports: exports, Guests: domains, Daemon: client.Daemon, Logger: r.log})
		if err != nil {
			return nil, err
		}
		domains.Shares = mounts
	}
	disks.Copies = domains
	tpms.Guests = domains
	format, err := h.Encryption.format(r, domains.EncryptionTraits)
	if err != nil {
		return nil, err
	}
	return &hostActivities{image: &image.HostActivities{Library: images, Files: disks}, disk: disks, domain: domains, tpm: tpms, mount: mounts, format: format}, nil
}

func openTPMs(h HostConfig, from *gateway.Client, hosts agent.Client) (*tpm.Activities, error) {
	cfg := tpm.Config{SwtpmDir: h.SwtpmState, User: h.SwtpmUser, Group: h.SwtpmGroup, Objects: hostObjects{gateway.HostObjects(from)}, Hosts: hosts, Endorser: from}
	if !h.SwtpmEnabled { // its user need not be there: no state is ever laid down here
		cfg.User, cfg.Group = "root", "root"
	}
	return tpm.New(cfg)
}

// hostObjects give what a host has of servers that are shelved to the object store.
type hostObjects struct{ object.Store }

func (o hostObjects) Put(ctx context.Context, cred compute.Credential, name string, size int64, data io.ReaderAt) error {
	_, err := o.Store.Put(ctx, object.PutInput{Credential: cred, Name: name, Size: size}, data)
	return err
}

func (o hostObjects) Open(ctx context.Context, cred compute.Credential, name string) (io.ReadCloser, error) {
	return o.Store.Open(ctx, cred, name, 0)
}

// serveAgent hands out console logs, and disks and TPM state to other hosts, in the background,
// until the context ends.
func (s *hostActivities) serveAgent(r *run, h HostConfig, own *pki.Identity, asks *gateway.Client, kept *keyring.Keyring) error {
	listener, err := listen("agent", h.AgentListen)
	if err != nil {
		return err
	}
	server := agent.Server{
		Logger: r.log,
		Console: func(ctx context.Context, id compute.ServerID, lines int) (string, error) {
			return s.domain.Console(ctx, domain.ConsoleInput{Server: id, Lines: lines})
		},
		Diagnose:  s.domain.Diagnose,
		Consoles:  &agent.Consoles{List: s.domain.Consoles, Open: s.domain.OpenConsole},
		Transfers: &agent.Transfers{Grants: asks.Grants, IsOff: s.domain.IsOff, Disk: s.disk.OpenToSend, Image: s.disk.OpenImageToSend, TPM: s.tpm.Send},
		Arrivals: &agent.Arrivals{
			Grants: asks.GrantsArrival, Prepare: s.domain.PrepareArrival, Open: s.domain.OpenArrival, Finish: s.domain.FinishArrival,
		},
	}
	if kept != nil {
		server.Kept = &agent.Kept{Grants: asks.GrantsKeys, Passphrase: kept.Passphrase, Secrets: s.domain.KeptOf}
	}
	background(r, "agent", secured(listener, own), server.Handler())
	return nil
}

// background serves HTTP beside the command.
func background(r *run, name string, listener net.Listener, handler http.Handler) {
	go func() {
		if err := serveOn(r, name, listener, handler, quiet); err != nil {
			r.log.Error("a service ended", "service", name, "error", err)
		}
	}()
}
