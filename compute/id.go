package compute

import "github.com/google/uuid"

// The ids of the field. Each is a UUID of its own type, so that the compiler
// refuses a host where a server is meant. They travel as plain UUID strings in
// JSON and as uuid in SQL.
type (
	// ServerID names a server (Nova: instance uuid).
	ServerID struct{ uuid.UUID }
	// DiskID names one block device mapping of a server.
	DiskID struct{ uuid.UUID }
	// HostID names a compute host; it lives in a file on that host.
	HostID struct{ uuid.UUID }
	// ImageID names an image of the image store.
	ImageID struct{ uuid.UUID }
	// SecretID names a secret of the key manager. It is a reference, never a value.
	SecretID struct{ uuid.UUID }
	// GroupID names a group of servers.
	GroupID struct{ uuid.UUID }
)

// OperationID is the id of one lifecycle operation and of the request that
// asked for it: "req-" and a UUID.
type OperationID string

// derivation is the namespace of every id that an operation derives.
var derivation = uuid.MustParse("7c4d2f0e-0d5b-5d0c-9a53-52f0a5d0c7a1")

// Derive gives the id of the thing that operation op calls label. The same
// operation and label always give the same id, so a step that runs twice makes
// the thing once. The attempt number never takes part.
func (op OperationID) Derive(label string) uuid.UUID {
	return uuid.NewSHA1(derivation, []byte(string(op)+"/"+label))
}

// NewOperationID makes a fresh id.
func NewOperationID() OperationID { return OperationID("req-" + uuid.NewString()) }
