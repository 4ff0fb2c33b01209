package mount

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"strongroom/compute"
)

// nfs mounts shares of NFS with the kernel's client, without its user-space helper: where a share is
// exported is in no argument of a program. NFS 4.1 and newer need no other port than 2049, and
// none to the host, so that the network of the storage may be a narrow one.
type nfs struct {
	*Activities
	place
}

const (
	nfsType = "nfs4"
	nfsPort = "2049"
	// nfsPatience is how long the storage may take to answer at all, before the kernel is asked to mount.
	nfsPatience = 10 * time.Second
)

// nfsOptions are those of each mount. A storage that is away for up to two and a half minutes (15, 30, 45 and
// 60 seconds) is waited for, as when it is taken over by another node. After that whoever reads or
// writes is told (softerr: ETIMEDOUT, which no program takes for the end of a file): with hard
// guests would wait for ever for a storage that is lost, and so would the end of the mount, and with
// it each stop, detach and delete of their servers.
const nfsOptions = "proto=%s,port=" + nfsPort + ",addr=%s,clientaddr=%s,sec=sys,softerr,timeo=150,retrans=3,vers=%s"

// nfsVersions are tried in this order: 4.2 can copy and punch holes. 4.0 is not among them, for which
// the storage would have to reach the host.
var nfsVersions = []string{"4.2", "4.1"}

// nfsRefusals are what another try will hardly mend; a storage that is busy, or being taken over, has others (EIO,
// ETIMEDOUT).
var nfsRefusals = []error{unix.EACCES, unix.EPERM, unix.ENOENT, unix.ENODEV, unix.EINVAL, unix.EPROTONOSUPPORT}

// nfsLocation is "<host>:/<path>"; the host may be a name, an IPv4 address, or an IPv6 address in brackets.
var nfsLocation = regexp.MustCompile(`\A(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):(/[^\x00]*)\z`)

// at implements protocol.
func (n nfs) at(ctx context.Context, id compute.ShareID, point string, from Export) (state, error) {
	on, _, err := n.mountAt(point)
	if err != nil {
		return elsewhere, failed(id, "look at its mount point", err)
	}
	switch isDead, err := n.isDead(ctx, id, point); {
	case err != nil:
		return elsewhere, err
	case isDead:
		return dead, nil
	case on.source == from.Path: // an attempt that was cut off may not have come to the second step
		if err := n.shield(ctx, id, on.option("addr")); err != nil { // it may be a mount of an earlier release, which remembered none
			return elsewhere, err
		}
		return here, refusedIf(id, harmless(point))
	}
	return elsewhere, nil
}

// mount implements protocol.
func (n nfs) mount(ctx context.Context, id compute.ShareID, point string, from Export) error {
	place := nfsLocation.FindStringSubmatch(from.Path)
	if place == nil {
		return compute.Errorf(compute.Conflict, "share %s: where it is exported cannot be read", id)
	}
	all, storage, own, err := n.reach(ctx, strings.Trim(place[1], "[]"))
	if err != nil {
		return compute.Errorf(compute.Unavailable, "share %s: its storage does not answer: %w", id, err)
	}
	if err := n.shield(ctx, id, all...); err != nil {
		return err
	}
	proto := "tcp"
	if strings.Contains(storage, ":") {
		proto = "tcp6"
	}
	for _, version := range nfsVersions {
		options := fmt.Sprintf(nfsOptions, proto, storage, own, version)
		err = unix.Mount(from.Path, point, nfsType, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options)
		if !errors.Is(err, unix.EPROTONOSUPPORT) && !errors.Is(err, unix.EINVAL) {
			break
		}
	}
	if err != nil && !slices.ContainsFunc(nfsRefusals, func(refusal error) bool { return errors.Is(err, refusal) }) {
		return failed(id, "its storage does not answer as it should", err)
	}
	if err != nil {
		return refused(id, "it could not be mounted", err)
	}
	return refusedIf(id, harmless(point))
}

// reach gives all addresses of a storage, the one at which it answers, and that of this host as the storage is reached there. Its
// errors name none.
func (nfs) reach(ctx context.Context, host string) (all []string, storage, own string, err error) {
	ctx, cancel := context.WithTimeout(ctx, nfsPatience)
	defer cancel()
	all, err = net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, "", "", errors.New("its name is unknown")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, nfsPort))
	if err != nil {
		var number unix.Errno
		if errors.As(err, &number) {
			return nil, "", "", number
		}
		return nil, "", "", errors.New("it cannot be reached")
	}
	storage, own = conn.RemoteAddr().(*net.TCPAddr).IP.String(), conn.LocalAddr().(*net.TCPAddr).IP.String()
	if !slices.Contains(all, storage) { // the name has got another one meanwhile
		all = append(all, storage)
	}
	return all, storage, own, conn.Close()
}

func refusedIf(id compute.ShareID, err error) error {
	if err == nil {
		return nil
	}
	return refused(id, "it could not be mounted", err)
}

// MountsNFS reports whether the host's kernel has NFS, or a module for it that it would load.
func (a *Activities) MountsNFS(ctx context.Context) bool { return kernelHas(ctx, nfsType) }
