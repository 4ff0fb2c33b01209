package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"strongroom/compute"
)

// Pool is a pool of a Ceph cluster. A host that has one keeps all disks of its
// servers there, as RBD images, but for those of the formats plain and luksv2.
// Other hosts, and others, may share it.
type Pool struct {
	Name     string // "": none
	User     string // without "client."
	ConfFile string // says where the cluster is; QEMU's user must be able to read it
	Keyring  string // holds the user's key
}

var cephName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

func (p Pool) check() error {
	switch {
	case p.Name == "":
		return nil
	case !cephName.MatchString(p.Name):
		return fmt.Errorf("disk: %q is no name of a Ceph pool", p.Name)
	case !cephName.MatchString(p.User):
		return fmt.Errorf("disk: %q is no name of a Ceph user", p.User)
	case !filepath.IsAbs(p.ConfFile), !filepath.IsAbs(p.Keyring):
		return fmt.Errorf("disk: files of the Ceph pool %s: %q and %q are to be absolute paths", p.Name, p.ConfFile, p.Keyring)
	}
	return nil
}

// poolImage is an RBD image. Its name is that of the disk's file, with the server's
// in front, as Nova named its own.
type poolImage struct{ pool, name string }

func (i poolImage) draft() poolImage { return poolImage{i.pool, i.name + draftSuffix} }

func (i poolImage) String() string { return i.pool + "/" + i.name }

// In the server's folder a link leads to an image, from before it is there until it
// is gone. Without that link it is not this host's: hosts share pools, and what one of
// them gave up may be another's now.
const poolLink = "rbd:"

// pooled gives the image that a disk's name in its server's folder leads to. ok is
// false when it is none. Unavailable: the host is set up for no pool.
func (a *Activities) pooled(path string) (i poolImage, ok bool, err error) {
	to, err := os.Readlink(path)
	if err != nil {
		return i, false, nil //nolint:nilerr // nothing, or a file
	}
	spec, ok := strings.CutPrefix(to, poolLink)
	if !ok {
		return i, false, nil
	}
	if a.Pool.Name == "" {
		return i, false, compute.Errorf(compute.Unavailable, "%s is in the Ceph cluster, and the host is set up for no pool (host.rbd)", spec)
	}
	i.pool, i.name, _ = strings.Cut(spec, "/")
	return i, true, nil
}

// imageFor is the image that a disk of this host is to be.
func (a *Activities) imageFor(server compute.ServerID, file string) poolImage {
	return poolImage{pool: a.Pool.Name, name: server.String() + "_" + file}
}
