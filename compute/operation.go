package compute

import (
	"encoding/json"
	"time"
)

// OperationKind is the API's word for an operation: the action name of
// os-instance-actions, of the operations row and of the workflow.
type OperationKind string

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

// Operation is one lifecycle operation, as its row says.
type Operation struct {
	ID         OperationID     `json:"id"`
	ServerID   ServerID        `json:"server_id,omitzero"` // the server that it works on
	Subject    Owner           `json:"subject,omitzero"`   // what an operation that has no server works on
	Kind       OperationKind   `json:"kind"`
	State      OperationState  `json:"state"`
	Credential Credential      `json:"credential"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Message    string          `json:"message,omitempty"`
	AcceptedAt time.Time       `json:"accepted_at"`
}

// On is what the operation works on.
func (op Operation) On() Owner {
	if op.Subject != (Owner{}) {
		return op.Subject
	}
	return ServerOwner(op.ServerID)
}
