package compute

import (
	"encoding/json"
	"time"
)

// OperationKind is the API's word for an operation (the action name of
// os-instance-actions).
type OperationKind string

// The operations of this release.
const (
	OpCreate OperationKind = "create"
	OpDelete OperationKind = "delete"
	OpStart  OperationKind = "start"
	OpStop   OperationKind = "stop"
	OpReboot OperationKind = "reboot"

	OpCreateImage  OperationKind = "createImage"
	OpCreateBackup OperationKind = "createBackup"
	OpRebuild      OperationKind = "rebuild"

	OpRotateKeys OperationKind = "rotateKeys" // strongroom's own

	OpRescue   OperationKind = "rescue"
	OpUnrescue OperationKind = "unrescue"

	// These end inside the request: a row in the trail, no workflow.
	OpLock       OperationKind = "lock"
	OpUnlock     OperationKind = "unlock"
	OpResetState OperationKind = "resetState"
)

// OperationState is how far an operation is.
type OperationState string

// The states of an operation.
const (
	OperationAccepted  OperationState = "accepted"  // committed, workflow not seen yet
	OperationRunning   OperationState = "running"   // the workflow has begun
	OperationSucceeded OperationState = "succeeded" // its effect is there
	OperationFailed    OperationState = "failed"    // undone, the message says why
	OperationCancelled OperationState = "cancelled" // undone because something else won
)

// Settled reports whether the operation has ended.
func (s OperationState) Settled() bool {
	return s == OperationSucceeded || s == OperationFailed || s == OperationCancelled
}

// Operation is one lifecycle operation on one server, as its row says.
type Operation struct {
	ID         OperationID     `json:"id"`
	ServerID   ServerID        `json:"server_id"`
	Kind       OperationKind   `json:"kind"`
	State      OperationState  `json:"state"`
	Credential Credential      `json:"credential"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Message    string          `json:"message,omitempty"`
	AcceptedAt time.Time       `json:"accepted_at"`
}

// RebootArguments are the arguments of a reboot.
type RebootArguments struct {
	Hard bool `json:"hard"`
}
