package domain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// KeySource reads passphrases; the caller wipes them.
type KeySource interface {
	Passphrase(ctx context.Context, cred compute.Credential, id compute.SecretID) (*secret.Passphrase, error)
}

// ImageCache tells where the host keeps its copy of an image, which lies under
// the root disks made of it.
type ImageCache interface {
	// CheckedImage gives its path. A copy of an encrypted image is the project's. ok is false
	// if it may have changed since it was downloaded: disk.CheckImage must look at it.
	CheckedImage(project string, img compute.Image) (path string, ok bool, err error)
}

// Devices knows the disks of servers that are not files: it opens those that are block
// devices of the host.
type Devices interface {
	// OpenDevices ensures that a server's are open, and gives their paths.
	OpenDevices(ctx context.Context, cred compute.Credential, s compute.Server) (map[compute.DiskID]string, error)
	// CloseDevices ensures that none of a server's is open.
	CloseDevices(ctx context.Context, id compute.ServerID) error
	// NoteBoot notes when the operation began that boots a server.
	NoteBoot(ctx context.Context, id compute.ServerID, began time.Time) error
	// OpenServers are those of which some are open.
	OpenServers(ctx context.Context) ([]compute.ServerID, error)
	// PoolImages gives those of a server's that are in the host's Ceph pool, as
	// "<pool>/<image>". They are there, and the cluster answers.
	PoolImages(ctx context.Context, s compute.Server) (map[compute.DiskID]string, error)
	// PoolRoom is what the pool holds at most, and can still take, in bytes. ok is false
	// when there is no pool.
	PoolRoom(ctx context.Context) (total, free int64, ok bool, err error)
	// DeviceFormats are the encryption formats that it can open here.
	DeviceFormats(ctx context.Context) ([]compute.DiskFormat, error)
	// DeviceRoomMB is how many MiB there are for such disks, those that exist included; nil: there are none.
	DeviceRoomMB(ctx context.Context) (*int64, error)
}

// TPMStates knows the state folders of vTPMs.
type TPMStates interface {
	// NoteNew notes which operation is about to make a server's, and when that began.
	NoteNew(ctx context.Context, server compute.ServerID, op compute.OperationID, began time.Time) error
	// Make notes the same, and makes the state where the cloud certifies the endorsement keys of vTPMs. Otherwise the first start does.
	Make(ctx context.Context, of compute.FreshTPM, passphrase *secret.Passphrase) error
	// Check fails with Corrupt where there is no state, unless it is to be a new one, and where libvirt must not start the server with it.
	Check(ctx context.Context, server compute.ServerID, version compute.TPMVersion, isNew bool) error
}

// Shares knows where shares are mounted, and whether they are.
type Shares interface {
	Path(id compute.ShareID) string
	Mounted(ctx context.Context, id compute.ShareID) (bool, error)
}

// Config of a host's domains.
type Config struct {
	Client  *Client
	Keys    KeySource
	Images  ImageCache
	Exports Exports   // where the copies of disks go
	Devices Devices   // opened when a domain starts, closed when it is off
	TPMs    TPMStates // nil: the host's servers have none
	Shares  Shares    // nil: the host's servers have none
	Kept    KeptKeys  // nil: no keys of guests are kept
	// Comparable gives those of a server's secrets of which it is known what the key manager has.
	Comparable   func(context.Context, compute.ServerID, []compute.SecretID) ([]compute.SecretID, error)
	KeepsDisks   bool   // the keys of disks are kept, too, and not the vTPM's alone (EE-30)
	InstancesDir string // the folders with the servers' disks and console logs
	RunDir       string // sockets of consoles, locks; short: at most 60 bytes
	QEMUDir      string // libvirt's folder that QEMU's user owns, "": /var/lib/libvirt/qemu
	SaveDir      string // libvirt's folder with the memory of suspended guests, "": save of QEMUDir
	// EncryptedState says that what servers have on this host, InstancesDir, is on an encrypted volume.
	EncryptedState bool
	VNC            bool     // machines have a screen
	Hosts          Arrivals // to which running servers move; nil: none do
	Overseer       Overseer // of these moves; nil: nobody
	// MigrationStall is how long such a move may send nothing; 0: five minutes.
	MigrationStall time.Duration
	VirtType       string             // "kvm" or "qemu", see Client.ChooseVirtType
	Machine        string             // of servers that ask for none, default "q35"
	FirmwareDir    string             // where UEFI is described, "": firmware.Folder
	Ceph           Ceph               // where disks in a pool are
	Networks       map[string]Network // by uuid; empty: libvirt's own networks
	Filter         string             // libvirt's network filter for each interface; "": none
	// SparePorts are the PCI ports that a machine has for what is plugged in while it runs.
	SparePorts int
	// UnplugTimeout is how long a guest may take to give a device up; 0: two minutes.
	UnplugTimeout time.Duration
	Logger        *slog.Logger
}

// Ceph says how QEMU gets to the disks in the host's pool.
type Ceph struct {
	User     string
	ConfFile string
	Key      func() (*secret.Passphrase, error) // in base64
}

// Network is what a server's interface is plugged into: one of the two.
type Network struct {
	Name   string // a libvirt network
	Bridge string // a bridge of the host
}

// Activities are what workflows call of a host's domains.
type Activities struct {
	Config
	cache    string // QEMU's cache mode for disks
	arrivals arrivals
}

// maxRunDir leaves room for "/<uuid>.move/s" in the 108 bytes of a socket's path.
const maxRunDir = 108 - 1 - len("/00000000-0000-0000-0000-000000000000.move/s")

// New makes the run folder and sees what the disks' file system can do.
func New(cfg Config) (*Activities, error) {
	if cfg.Machine == "" {
		cfg.Machine = "q35"
	}
	if cfg.QEMUDir == "" {
		cfg.QEMUDir = qemuFolder
	}
	if cfg.SaveDir == "" {
		cfg.SaveDir = filepath.Join(cfg.QEMUDir, "save")
	}
	if cfg.UnplugTimeout == 0 {
		cfg.UnplugTimeout = defaultUnplugTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if len(cfg.RunDir) > maxRunDir {
		return nil, fmt.Errorf("domain: run folder %s: at most %d bytes are allowed", cfg.RunDir, maxRunDir)
	}
	if cfg.VirtType != "kvm" && cfg.VirtType != "qemu" {
		return nil, fmt.Errorf("domain: virt_type %q: it must be kvm or qemu", cfg.VirtType)
	}
	for _, dir := range []string{cfg.InstancesDir, cfg.RunDir} {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("domain: folder %q is not an absolute path", dir)
		}
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("domain: %w", err)
		}
	}
	cache, err := cacheMode(cfg.InstancesDir)
	if err != nil {
		return nil, fmt.Errorf("domain: %w", err)
	}
	return &Activities{Config: cfg, cache: cache}, nil
}

// cacheMode is "none", past the host's page cache, where the file system can do
// that, and "writeback" where not.
func cacheMode(dir string) (string, error) {
	f, err := os.CreateTemp(dir, ".direct-")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	direct, err := os.OpenFile(f.Name(), os.O_RDWR|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EINVAL) {
		return "writeback", nil
	}
	if err != nil {
		return "", err
	}
	return "none", direct.Close()
}

// socket is where a server's serial console can be talked to.
func (a *Activities) socket(id compute.ServerID) string {
	return filepath.Join(a.RunDir, id.String()+".sock")
}

// lock lets one attempt at a time work on a server's domain and secrets: one
// that timed out may still be at work when its successor begins.
func (a *Activities) lock(ctx context.Context, id compute.ServerID) (unlock func(), err error) {
	if id.UUID == uuid.Nil {
		return nil, compute.Errorf(compute.Invalid, "a domain of no server")
	}
	path := filepath.Join(a.RunDir, id.String()+".lock")
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, compute.Errorf(compute.Unavailable, "server %s: lock: %w", id, err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && isStill(f, path) { // a holder before may have removed it
			return func() {
				os.Remove(path)
				f.Close()
			}, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, compute.Errorf(compute.Unavailable, "server %s: lock: %w", id, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func isStill(f *os.File, path string) bool {
	opened, err := f.Stat()
	there, terr := os.Stat(path)
	return err == nil && terr == nil && os.SameFile(opened, there)
}
