// Package share opens shared file systems to hosts and closes them again: the
// shares that users have in Manila, or in a folder of this machine.
//
// Service is the port; each adapter lives in a folder of its own and passes the
// suite in sharetest. Activities is what workflows call: neither an access key nor
// an export location goes through them (SH-25); a gateway reads both from the port
// for the host that mounts.
package share

import (
	"context"

	"github.com/google/uuid"

	"strongroom/activities/secret"
	"strongroom/compute"
)

type (
	// ID names a share of the service.
	ID = compute.ShareID
	// RuleID names one of a share's access rules.
	RuleID struct{ uuid.UUID }
)

// Service is a shared file systems service. A share is used with a credential of
// the project that owns it: another project's gets NotFound or Forbidden, one
// without a project Forbidden. No error text carries an export location, a key or
// what the service wrote. All methods may be called at once, also from several
// processes.
type Service interface {
	// Get gives a share. A share of another project that is public is given too.
	Get(ctx context.Context, cred compute.Credential, id ID) (Share, error)
	// Locations gives the export locations, the preferred one first. Conflict: there
	// is none (yet).
	Locations(ctx context.Context, cred compute.Credential, id ID) ([]Location, error)
	// Allow ensures that one access rule lets the grantee in at the level, that it
	// names the server, and that the storage obeys it. The rule that is there
	// already is the one. Where the service has locks, users can neither remove the
	// rule nor the share below it, nor see the grantee (SH-08, SH-09).
	// Conflict: the share cannot be mounted now (Share.Check), there is a rule for
	// the grantee at another level or one that strongroom did not make, or the
	// storage refused the rule; Unavailable: it did not obey in time.
	Allow(ctx context.Context, in AllowInput) (Rule, error)
	// AccessKey reads the key that strongroom's rule for a Ceph user came with. The caller
	// wipes it. NotFound: the share has no such rule; Conflict: it has no key (yet), or
	// hides it from the credential.
	AccessKey(ctx context.Context, cred compute.Credential, share ID, to Grantee) (*secret.Passphrase, error)
	// Deny ensures that no rule of the share that strongroom made names the server:
	// a rule that names no other is removed, and the storage has forgotten it by
	// then. A share or rule that is not there is a success.
	// Unavailable: it is not gone yet; Conflict: the storage could not forget it.
	Deny(ctx context.Context, in DenyInput) error
	// List gives the rules that strongroom made on the shares of the credential's
	// project, in no order.
	List(ctx context.Context, cred compute.Credential) ([]Rule, error)
	// Standing says which of these shares are there and belong to the credential's project, and gives the
	// access rules of those that do. The project's shares are listed once, however many are asked for,
	// and the rules of each share once. Forbidden: the credential may not see the project's shares;
	// that none of them is found with it would mean nothing.
	Standing(ctx context.Context, cred compute.Credential, ids []ID) (Looked, error)
}

// Share is a shared file system.
type Share struct {
	ID        ID       `json:"id"`
	Name      string   `json:"name"`
	ProjectID string   `json:"project_id"`
	Protocol  Protocol `json:"protocol"`
	SizeGiB   int      `json:"size"`
	Status    string   `json:"status"` // the service's own word; StatusAvailable is the good one
	Zone      string   `json:"availability_zone"`
}

// StatusAvailable is the status of a share that can be used.
const StatusAvailable = "available"

// Rule is an access rule. Of one that strongroom did not make Servers is empty.
type Rule struct {
	ID      RuleID             `json:"id"`
	Share   ID                 `json:"share_id"`
	To      Grantee            `json:"to"`
	Level   Level              `json:"level"`
	State   string             `json:"state"`   // the service's own word
	Servers []compute.ServerID `json:"servers"` // for which it was made, in no order
}

// Grantee is who a rule lets in.
type Grantee struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"` // an IP address, or a Ceph user's name
}

// Kind is a kind of grantee; a protocol has one.
type Kind string

// The kinds.
const (
	Address  Kind = "ip"
	CephUser Kind = "cephx"
)

// Level is what a rule lets a grantee do.
type Level string

// The levels.
const (
	ReadWrite Level = "rw"
	ReadOnly  Level = "ro"
)

// AllowInput asks for an access rule.
type AllowInput struct {
	Credential compute.Credential `json:"credential"`
	Share      ID                 `json:"share_id"`
	Server     compute.ServerID   `json:"server_id"` // on whose behalf
	To         Grantee            `json:"to"`
	Level      Level              `json:"level"`
}

// DenyInput asks that a server has no access rule left.
type DenyInput struct {
	Credential compute.Credential `json:"credential"`
	Share      ID                 `json:"share_id"`
	Server     compute.ServerID   `json:"server_id"`
	To         *Grantee           `json:"to,omitempty"` // nil: whoever the server's rules let in
	// Rule is the rule's id where it is known: that rule goes even if users removed
	// what marked it as strongroom's.
	Rule *RuleID `json:"rule_id,omitempty"`
}
