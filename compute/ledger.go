package compute

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// ThingKind is a kind of thing that strongroom makes outside its database.
type ThingKind string

// The kinds of the ledger; what is known of each is in kinds.
const (
	ThingDomain           ThingKind = "domain"            // a libvirt domain; name: the domain's name
	ThingRunningDomain    ThingKind = "running_domain"    // that a domain runs, while it is not decided that it does; name: the domain's name
	ThingHypervisorSecret ThingKind = "hypervisor_secret" // a libvirt secret; name: its uuid
	ThingKeySlot          ThingKind = "key_slot"          // key slots of a LUKS disk; name: AddedKeySlots or OldKeySlots
	ThingDiskFile         ThingKind = "disk_file"         // name: <server uuid>/<file>
	ThingCachedImage      ThingKind = "cached_image"      // a disk's use of a host's copy of an encrypted image; name: Image.CacheUse
	ThingTPMState         ThingKind = "tpm_state"         // a swtpm folder; name: the server's uuid
	ThingShareMount       ThingKind = "share_mount"       // a server's use of its host's mount of a share; name: ShareUse
	ThingVolumeMapping    ThingKind = "volume_mapping"    // a host's own volume that its kernel decrypts; name: the volume's uuid
	ThingVolumeMount      ThingKind = "volume_mount"      // its mount; name: the volume's uuid
	ThingShareAccess      ThingKind = "share_access"      // a server's part in the rule that lets its host in to a share; name: ShareUse
	ThingImage            ThingKind = "image"             // an image that is being made; name: its id
	ThingObject           ThingKind = "object"            // an object of the object store; name: the object's name
	ThingKeySecret        ThingKind = "key_secret"        // a key-manager secret; name: the secret's name
	ThingPluggedPort      ThingKind = "plugged_port"      // that a domain has an interface on a port, while it is not decided that it does; name: PortUse
	ThingPort             ThingKind = "port"              // a server's port; name: PortName of one that strongroom made, else PortUse
	ThingTrust            ThingKind = "trust"             // an owner's trust in strongroom; name: the trust's name
)

// MustWaitFor reports whether a thing can be removed only after another one, which waits
// to be removed itself. What is in use keeps nobody: a server that goes on with new disks
// parts with the keys of its old ones.
func (t Thing) MustWaitFor(other Thing) bool {
	return other.State == ThingWaiting && t.Owner == other.Owner && slices.Contains(GoneFirst(t.Kind), other.Kind) && (t.Place == other.Place || !t.OnHost())
}

// ThingState is how far a thing is.
type ThingState string

// The states of a ledger row. A row is closed (released) only when the thing
// was seen to be gone. One that is to go and cannot yet is waiting (Blocker says for
// what). One that an operation made for its user is handed over when it is whole: the
// audit knows it, and nothing removes it.
const (
	ThingIntended   ThingState = "intended"
	ThingPresent    ThingState = "present"
	ThingWaiting    ThingState = "waiting"
	ThingHandedOver ThingState = "handed_over"
	ThingReleased   ThingState = "released"
)

// Blocker is what the removal of a waiting thing waits for.
type Blocker string

// The blockers.
const (
	BlockedByCredential Blocker = "credential" // every credential was refused
	BlockedByHost       Blocker = "host"       // its host does not answer
	BlockedByTime       Blocker = "time"       // its making got no answer and may still happen
	BlockedByThings     Blocker = "things"     // what must be gone first is still there (GoneFirst)
	BlockedByError      Blocker = "error"      // its removal failed; it is tried again
)

// LateEffectWindow is how long a service may still be at something after whoever asked
// for it got no answer: longer than anybody waits for one.
const LateEffectWindow = 150 * time.Second

// The ledger's places that are services; things on a host have the host's uuid
// as their place.
const (
	PlaceKeyManager = "key-manager"
	PlaceIdentity   = "identity"
	PlaceImageStore = "image-store"
	PlaceObjects    = "object-store"
	PlaceShares     = "shared-file-systems"
	PlaceNetworks   = "network"
)

// OwnerKind is a kind of owner of things.
type OwnerKind string

// The kinds of owners.
const (
	OwnerServer    OwnerKind = "server"
	OwnerImage     OwnerKind = "image"
	OwnerShare     OwnerKind = "share"
	OwnerVolume    OwnerKind = "volume"
	OwnerHost      OwnerKind = "host"
	OwnerOperation OwnerKind = "operation"
)

// Owner is whose a thing is: it goes when its owner goes.
type Owner struct {
	Kind OwnerKind `json:"kind"`
	ID   uuid.UUID `json:"id"`
}

// ServerOwner is a server as an owner.
func ServerOwner(id ServerID) Owner { return Owner{Kind: OwnerServer, ID: id.UUID} }

// String is how people read it: "server 8f3c…".
func (o Owner) String() string { return string(o.Kind) + " " + o.ID.String() }

// Thing is one row of the ledger: something that exists, or may exist, in the
// world because strongroom meant to make it.
type Thing struct {
	ID         uuid.UUID   `json:"id"`
	Kind       ThingKind   `json:"kind"`
	Place      string      `json:"place"`               // PlaceKeyManager … or a host's uuid
	Name       string      `json:"name"`                // unique within kind and place
	Reference  string      `json:"reference,omitempty"` // the id that the service gave it, where that is not its name
	Owner      Owner       `json:"owner"`
	Operation  OperationID `json:"operation_id"`
	Credential Credential  `json:"credential"` // who made it
	State      ThingState  `json:"state"`
	BlockedBy  Blocker     `json:"blocked_by,omitempty"` // of a waiting thing
	Reason     string      `json:"reason,omitempty"`     // why it is waiting, for people
	HostName   string      `json:"host_name,omitempty"`  // of a thing on a host, where it is known
	Since      time.Time   `json:"since,omitzero"`       // since when it waits, by the database's clock
}

// WaitedBefore reports whether a thing waited to be removed when an operation began, by the
// database's clock: what that has made under the same name is not what waits.
func (t Thing) WaitedBefore(began time.Time) bool {
	return t.State == ThingWaiting && !t.Since.IsZero() && began.After(t.Since)
}

// Server gives the server whose thing it is, if a server owns it.
func (t Thing) Server() (ServerID, bool) {
	return ServerID{UUID: t.Owner.ID}, t.Owner.Kind == OwnerServer
}

// Secret gives the id that a secret of the key manager has there; ok is false for other things,
// and for one whose id is not known: nobody can have named it.
func (t Thing) Secret() (id SecretID, ok bool) {
	parsed, err := uuid.Parse(t.Reference)
	return SecretID{UUID: parsed}, err == nil && t.Kind == ThingKeySecret
}

// Host gives the host on which a thing is, if it is on one.
func (t Thing) Host() (HostID, bool) {
	id, err := uuid.Parse(t.Place)
	return HostID{UUID: id}, err == nil
}

// OnHost reports whether a thing is on a host.
func (t Thing) OnHost() bool {
	_, ok := t.Host()
	return ok
}

// Waits gives the thing as one whose removal has to wait. A long reason is cut (ShortReason).
func (t Thing) Waits(by Blocker, reason string) Thing {
	t.State, t.BlockedBy, t.Reason = ThingWaiting, by, ShortReason(reason)
	return t
}

// Removers are the credentials with which a thing of a cloud service can be
// removed, in the order in which they are tried: that of whoever asks, if he is
// of the thing's project; what the server's owner delegated; strongroom's own
// role in the project, where the operator gave it one.
func (t Thing) Removers(asked ...Credential) []Credential {
	project := t.Credential.ProjectID
	if project == DeploymentProject {
		return []Credential{DeploymentCredential()}
	}
	var out []Credential
	for _, c := range asked {
		if c.ProjectID == project {
			out = append(out, c)
		}
	}
	if server, ok := t.Server(); ok {
		delegated := DelegatedCredential(server, project, t.Credential.UserID)
		if len(out) == 0 || out[0].ID != delegated.ID {
			out = append(out, delegated)
		}
	}
	return append(out, MemberCredential(project))
}

// Thing names something that an operation is about to make for what it works on: a row of
// the ledger that is the same whoever writes it, and however often.
func (op Operation) Thing(kind ThingKind, place, name string) Thing {
	return Thing{
		ID:   op.ID.Derive("ledger/" + string(kind) + "/" + place + "/" + name),
		Kind: kind, Place: place, Name: name, Owner: op.On(), Operation: op.ID, Credential: op.Credential,
	}
}
