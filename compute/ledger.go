package compute

import "github.com/google/uuid"

// ThingKind is a kind of thing that strongroom makes outside its database.
type ThingKind string

// The kinds of the ledger, in the order in which a server's things are torn
// down: secrets of the key manager go last, after every disk that they open
// (EE-27, TPM-31).
const (
	ThingDomain           ThingKind = "domain"            // a libvirt domain; name: the domain's name
	ThingHypervisorSecret ThingKind = "hypervisor_secret" // a libvirt secret; name: its uuid
	ThingDiskFile         ThingKind = "disk_file"         // name: <server uuid>/<file>
	ThingCachedImage      ThingKind = "cached_image"      // a disk's use of a host's copy of an encrypted image; name: Image.CacheUse
	ThingTPMState         ThingKind = "tpm_state"         // a swtpm folder; name: the server's uuid
	ThingImage            ThingKind = "image"             // an image that is being made; name: its id
	ThingObject           ThingKind = "object"            // an object of the object store; name: the object's name
	ThingKeySecret        ThingKind = "key_secret"        // a key-manager secret; name: the secret's name
	ThingTrust            ThingKind = "trust"             // an owner's trust in strongroom; name: the trust's name
)

// TeardownOrder lists the kinds in the order of their removal. Trusts go last:
// with them the rest can be removed.
var TeardownOrder = []ThingKind{ThingDomain, ThingHypervisorSecret, ThingDiskFile, ThingCachedImage, ThingTPMState, ThingImage, ThingKeySecret, ThingTrust}

// ThingState is how far a thing is.
type ThingState string

// The states of a ledger row. A row is closed (released) only when the thing
// was seen to be gone. One that is to go and that nobody's credential could
// remove yet, or whose host is away, is waiting. One that an operation made for its
// user is given when it is whole: the audit knows it, and nothing removes it.
const (
	ThingIntended ThingState = "intended"
	ThingPresent  ThingState = "present"
	ThingWaiting  ThingState = "waiting"
	ThingGiven    ThingState = "given"
	ThingReleased ThingState = "released"
)

// The ledger's places that are services; things on a host have the host's uuid
// as their place.
const (
	PlaceKeyManager = "key-manager"
	PlaceIdentity   = "identity"
	PlaceImageStore = "image-store"
	PlaceObjects    = "object-store"
)

// Thing is one row of the ledger: something that exists, or may exist, in the
// world because strongroom meant to make it.
type Thing struct {
	ID         uuid.UUID   `json:"id"`
	Kind       ThingKind   `json:"kind"`
	Place      string      `json:"place"`               // PlaceKeyManager or a host's uuid
	Name       string      `json:"name"`                // unique within kind and place
	Reference  string      `json:"reference,omitempty"` // the id that the service gave it, where that is not its name
	Server     ServerID    `json:"server_id"`
	Operation  OperationID `json:"operation_id"`
	Credential Credential  `json:"credential"` // who made it
	State      ThingState  `json:"state"`
	Refused    string      `json:"refused,omitempty"` // why it is waiting
}

// Host gives the host on which a thing is, if it is on one.
func (t Thing) Host() (HostID, bool) {
	id, err := uuid.Parse(t.Place)
	return HostID{UUID: id}, err == nil
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
	delegated := DelegatedCredential(t.Server, project, t.Credential.UserID)
	if len(out) == 0 || out[0].ID != delegated.ID {
		out = append(out, delegated)
	}
	return append(out, MemberCredential(project))
}

// Thing names something that an operation is about to make for its server: a row of
// the ledger that is the same whoever writes it, and however often.
func (op Operation) Thing(kind ThingKind, place, name string) Thing {
	return Thing{
		ID:   op.ID.Derive("ledger/" + string(kind) + "/" + place + "/" + name),
		Kind: kind, Place: place, Name: name, Server: op.ServerID, Operation: op.ID, Credential: op.Credential,
	}
}
