package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/google/uuid"

	"strongroom/activities/firmware"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// ImageSource gives the bytes of images. The reader fails with Corrupt at its
// end when the bytes are not those of the record.
type ImageSource interface {
	Open(ctx context.Context, cred compute.Credential, id compute.ImageID) (io.ReadCloser, error)
}

// KeySource reads passphrases; the caller wipes them.
type KeySource interface {
	Passphrase(ctx context.Context, cred compute.Credential, id compute.SecretID) (*secret.Passphrase, error)
}

// Owner is the user that QEMU runs as.
type Owner struct{ UID, GID int }

// Config of a host's disks.
type Config struct {
	InstancesDir string        // a folder per server; all folders above it must let QEMU's user pass (0711)
	CacheDir     string        // images as they came from the image store; the same holds. Only QEMU's group may enter it
	CacheBytes   int64         // that the images may take; 0: 40 % of their file system
	CacheHold    time.Duration // that an image stays once it was cached, whoever needs room; default a minute, negative: none
	MemoryDir    string        // a file system in memory, default /dev/shm
	VolumeGroup  string        // of LVM, for the disks that are block devices; "" where the host has none
	Pool         Pool          // of Ceph, for all other disks
	Images       ImageSource
	Keys         KeySource
	Metadata     MetadataSource
	Hosts        Transfers
	Firmware     firmware.Host // for the UEFI variables of servers
	Objects      Objects       // where those of shelved ones are
	Owner        *Owner        // default libvirt-qemu's
	Runner       Runner        // default Exec
	Copies       Copies        // nil: no hypervisor writes into this host's exports
	Logger       *slog.Logger
}

// Copies are the hypervisor's jobs that copy disks of running servers into exports.
type Copies interface {
	// EndCopy ensures that none of a server's writes into a folder.
	EndCopy(ctx context.Context, server compute.ServerID, folder string) error
}

// Activities are what workflows call of a host's disks.
type Activities struct {
	Config

	stalls stalls
	turns  turns
}

var groupName = regexp.MustCompile(`^[a-zA-Z0-9+_.][a-zA-Z0-9+_.-]*$`)

// New makes the folders and looks up QEMU's user.
func New(cfg Config) (*Activities, error) {
	if cfg.Owner == nil {
		o, err := qemuOwner()
		if err != nil {
			return nil, err
		}
		cfg.Owner = &o
	}
	if cfg.Runner == nil {
		cfg.Runner = Exec{}
	}
	if cfg.CacheHold == 0 {
		cfg.CacheHold = cacheHold
	}
	if cfg.MemoryDir == "" {
		cfg.MemoryDir = "/dev/shm"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.VolumeGroup != "" && !groupName.MatchString(cfg.VolumeGroup) {
		return nil, fmt.Errorf("disk: %q is no name of a volume group", cfg.VolumeGroup)
	}
	if cfg.CacheBytes < 0 {
		return nil, fmt.Errorf("disk: an image cache of %d bytes", cfg.CacheBytes)
	}
	if err := cfg.Pool.check(); err != nil {
		return nil, err
	}
	for _, dir := range []string{cfg.InstancesDir, cfg.CacheDir} {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("disk: folder %q is not an absolute path", dir)
		}
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("disk: %w", err)
		}
	}
	// Some images are private, and QEMU must read them without owning them: it is the
	// folder that keeps others out.
	if err := errors.Join(os.Chown(cfg.CacheDir, -1, cfg.Owner.GID), os.Chmod(cfg.CacheDir, 0o710)); err != nil {
		return nil, fmt.Errorf("disk: %w", err)
	}
	return &Activities{Config: cfg}, nil
}

func qemuOwner() (Owner, error) {
	u, err := user.Lookup("libvirt-qemu")
	if err != nil {
		return Owner{}, fmt.Errorf("disk: the user that QEMU runs as: %w", err)
	}
	uid, uerr := strconv.Atoi(u.Uid)
	gid, gerr := strconv.Atoi(u.Gid)
	if uerr != nil || gerr != nil {
		return Owner{}, fmt.Errorf("disk: user libvirt-qemu has the ids %q, %q", u.Uid, u.Gid)
	}
	return Owner{uid, gid}, nil
}

// serverDir is the folder of a server's files.
func (a *Activities) serverDir(id compute.ServerID) (string, error) {
	if id.UUID == uuid.Nil {
		return "", compute.Errorf(compute.Invalid, "a disk of no server")
	}
	return filepath.Join(a.InstancesDir, id.String()), nil
}
