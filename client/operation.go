package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// The states of an operation.
const (
	Accepted  = "accepted"  // on record; it will begin
	Running   = "running"   // at work
	Succeeded = "succeeded" // its effect is there
	Failed    = "failed"    // it was undone; its message says why
	Cancelled = "cancelled" // it was undone, because somebody cancelled it or a delete won
)

// Operation is one operation on a server. Its id is that of the request that asked for it.
type Operation struct {
	ID         string    `json:"id"`
	Kind       string    `json:"kind"` // create, start, live-migration, rotate_keys …
	State      string    `json:"state"`
	Message    string    `json:"message"` // why it failed, or what it has cost
	UserID     string    `json:"user_id"`
	ProjectID  string    `json:"project_id"`
	AcceptedAt Time      `json:"accepted_at"`
	StartedAt  *Time     `json:"started_at"`
	FinishedAt *Time     `json:"finished_at"`
	Progress   *Progress `json:"progress"` // of the long work that is under way; nil: none is
	Events     []Event   `json:"events"`   // its steps, in the order in which they began
}

// Settled reports whether the operation has ended.
func (o Operation) Settled() bool {
	return o.State == Succeeded || o.State == Failed || o.State == Cancelled
}

// Err is an *OperationError of one that failed or was cancelled, else nil.
func (o Operation) Err() error {
	if o.State == Failed || o.State == Cancelled {
		return &OperationError{Operation: o}
	}
	return nil
}

// Progress is how far the long work of an operation is.
type Progress struct {
	Phase string `json:"phase"` // download, copy, convert, backup, upload, receive, compare, migrate, shutdown
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
	Unit  string `json:"unit"` // bytes or seconds
}

// Event is a step of an operation.
type Event struct {
	Event      string `json:"event"`
	StartTime  Time   `json:"start_time"`
	FinishTime *Time  `json:"finish_time"`
	Result     string `json:"result"` // Success or Error; "" of one that is under way
	Host       string `json:"host"`   // for administrators
	Details    string `json:"details"`
}

// Time is a time of the compute API, which names no zone: UTC.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000000"

// MarshalJSON writes a time as the API does.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.UTC().Format(timeLayout) + `"`), nil
}

// UnmarshalJSON reads a time.
func (t *Time) UnmarshalJSON(text []byte) error {
	if len(text) < 2 || text[0] != '"' {
		return fmt.Errorf("%s is no time", text)
	}
	at, err := time.Parse(timeLayout, string(text[1:len(text)-1]))
	t.Time = at
	return err
}

// OperationError is the error of an operation that failed or was cancelled.
type OperationError struct{ Operation Operation }

// Error says what failed and why.
func (e *OperationError) Error() string {
	how := "failed"
	if e.Operation.State == Cancelled {
		how = "was cancelled"
	}
	text := fmt.Sprintf("%s (%s) %s", e.Operation.Kind, e.Operation.ID, how)
	if e.Operation.Message != "" && e.Operation.Message != e.Operation.State {
		text += ": " + e.Operation.Message
	}
	return text
}

// ListOperations gives the operations of a server, the newest first, at most 1000; also of one that was deleted.
func ListOperations(ctx context.Context, c *gophercloud.ServiceClient, server string) ([]Operation, error) {
	var body struct {
		Operations []Operation `json:"operations"`
	}
	return body.Operations, get(ctx, c, &body, "servers", server, "operations")
}

// GetOperation gives one operation of a server.
func GetOperation(ctx context.Context, c *gophercloud.ServiceClient, server, id string) (Operation, error) {
	var body struct {
		Operation Operation `json:"operation"`
	}
	return body.Operation, get(ctx, c, &body, "servers", server, "operations", id)
}

// CancelOperation asks an operation to undo what it has done. It does, unless it is past the point from which on it
// only goes forward: WaitForOperation tells. 409: it has ended, has not begun, or is a delete.
func CancelOperation(ctx context.Context, c *gophercloud.ServiceClient, server, id string) error {
	_, err := remove(ctx, c, "servers", server, "operations", id)
	return err
}

// How long WaitForOperation waits between two looks: longer and longer; and for a service that does not answer.
const (
	firstLook = 200 * time.Millisecond
	lastLook  = 2 * time.Second
	patience  = 2 * time.Minute
)

// WaitForOperation waits until an operation has ended and gives it; the error is an *OperationError if it did not
// succeed. seen, which may be nil, is told of each look. The operation goes on if ctx ends before. A service that does not
// answer for less than two minutes, since it is being restarted, say, does not end the wait.
func WaitForOperation(ctx context.Context, c *gophercloud.ServiceClient, server, id string, seen func(Operation)) (Operation, error) {
	heard := time.Now()
	for pause := firstLook; ; pause = min(pause*3/2, lastLook) {
		op, err := GetOperation(ctx, c, server, id)
		switch {
		case err != nil && (!away(err) || time.Since(heard) > patience):
			return op, err
		case err == nil:
			heard = time.Now()
			if seen != nil {
				seen(op)
			}
			if op.Settled() {
				return op, op.Err()
			}
		}
		select {
		case <-ctx.Done():
			return op, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// away reports whether a service gave no answer, or one that says that it has none now.
func away(err error) bool {
	var answered gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answered) {
		return answered.Actual >= http.StatusInternalServerError
	}
	var transport *url.Error
	return errors.As(err, &transport)
}
