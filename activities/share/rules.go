package share

import (
	"net/netip"
	"strings"

	"github.com/google/uuid"

	"strongroom/compute"
)

// Protocol is how a share is mounted.
type Protocol string

// The protocols of shares that hosts mount.
const (
	NFS    Protocol = "NFS"
	CephFS Protocol = "CEPHFS"
	Local  Protocol = "LOCAL" // the export location is a folder of the host itself
)

// Grantees gives the kind of grantee that the protocol's rules have; ok is false for
// a protocol that a host cannot mount.
func (p Protocol) Grantees() (kind Kind, ok bool) {
	switch p {
	case NFS, Local:
		return Address, true
	case CephFS:
		return CephUser, true
	}
	return "", false
}

// Check refuses, with Conflict, a share that no host mounts (SH-18), and one that cannot be
// mounted now.
func (s Share) Check() error {
	if _, ok := s.Protocol.Grantees(); !ok {
		return compute.Errorf(compute.Conflict, "Share protocol %s is not supported.", s.Protocol)
	}
	if s.Status != StatusAvailable {
		return compute.Errorf(compute.Conflict, "Share %s is in '%s' instead of '%s' status.", s.ID, s.Status, StatusAvailable)
	}
	return nil
}

// userSpace is the namespace of the Ceph users' names.
var userSpace = uuid.MustParse("9c2f5a0e-3d0f-5c1f-8f3a-0d6b1c9e7a44")

// UserOf is the Ceph user that a host mounts a share as, for all of its servers. Each host
// has one per share: a host that is lost can read what it had mounted and nothing else, and
// Ceph ties a user to the project of the first share that it was let in to.
func UserOf(host compute.HostID, share ID) Grantee {
	id := uuid.NewSHA1(userSpace, append(host.UUID[:], share.UUID[:]...))
	return Grantee{Kind: CephUser, Name: "strongroom-" + id.String()}
}

// GranteeOf is whom a share's rule lets in for a host: its Ceph user, or the address that it has there.
func GranteeOf(p Protocol, host compute.HostID, share ID, address string) Grantee {
	if kind, _ := p.Grantees(); kind != CephUser {
		return Grantee{Kind: kind, Name: address}
	}
	return UserOf(host, share)
}

// Is reports whether both are the same: addresses may be written in several ways.
func (g Grantee) Is(other Grantee) bool {
	if g.Kind != other.Kind {
		return false
	}
	if g.Kind == Address {
		one, two := prefix(g.Name), prefix(other.Name)
		return one.IsValid() && one == two
	}
	return g.Name == other.Name
}

// prefix reads an address or a network; what is neither gives an invalid one.
func prefix(text string) netip.Prefix {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p.Masked()
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(address, address.BitLen())
}

// Check refuses what no service can do, with Invalid.
func (in AllowInput) Check() error {
	switch {
	case in.Server.UUID == uuid.Nil:
		return compute.Errorf(compute.Invalid, "an access rule needs a server that it is for")
	case in.Level != ReadWrite && in.Level != ReadOnly:
		return compute.Errorf(compute.Invalid, "%q is no level of access", in.Level)
	}
	return in.To.check()
}

func (g Grantee) check() error {
	switch g.Kind {
	case Address:
		if !prefix(g.Name).IsValid() {
			return compute.Errorf(compute.Invalid, "%q is no address to let in", g.Name)
		}
	case CephUser:
		if g.Name == "" || strings.ContainsFunc(g.Name, func(r rune) bool { return r <= ' ' || r > '~' || r == '.' }) {
			return compute.Errorf(compute.Invalid, "%q is no Ceph user to let in", g.Name)
		}
	default:
		return compute.Errorf(compute.Invalid, "%q is no kind of grantee", g.Kind)
	}
	return nil
}

// CheckFor refuses, with Conflict, a grantee that the share's protocol cannot let in.
func (g Grantee) CheckFor(s Share) error {
	if kind, _ := s.Protocol.Grantees(); kind != g.Kind {
		return compute.Errorf(compute.Conflict, "share %s of protocol %s lets in the kind %q, not %q", s.ID, s.Protocol, kind, g.Kind)
	}
	return nil
}

// CheckOwner refuses, with Forbidden, whoever does not own the share: being able to
// see it is not enough.
func (s Share) CheckOwner(cred compute.Credential) error {
	if cred.ProjectID == "" || s.ProjectID != cred.ProjectID {
		return compute.Errorf(compute.Forbidden, "share %s belongs to another project", s.ID)
	}
	return nil
}

// Missing is the error for a share that is not there, or not for this credential.
func Missing(id ID) error {
	return compute.Errorf(compute.NotFound, "Share %s could not be found.", id)
}

// NoRule is the error for a share without a rule of strongroom's for the grantee.
func NoRule(id ID, to Grantee) error {
	return compute.Errorf(compute.NotFound, "share %s has no access rule of strongroom's for this %s", id, to.Kind)
}

// Unexported is the error for a share without an export location.
func Unexported(id ID) error {
	return compute.Errorf(compute.Conflict, "Share %s export location is missing.", id)
}
