package notification

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"

	"github.com/google/uuid"

	"strongroom/compute"
	"strongroom/schema"
)

// The priorities of notifications, as Nova spells them.
const (
	priorityInfo  = "INFO"
	priorityError = "ERROR"
)

// buildFailed is told when no host was found for a new server.
const buildFailed = "compute_task.build_instances.error"

// timeFormat is that of oslo.messaging's timestamps.
const timeFormat = "2006-01-02 15:04:05.000000"

// Opener unseals where a share is exported.
type Opener interface {
	Unseal(of compute.Credential, sealed []byte) ([]byte, error)
}

// Writer writes notifications of operations into the outbox. A nil Writer writes none.
type Writer struct {
	Shares bool // payloads list the servers' shares (include_share_mapping)
	// Locations, where it is not nil, has the listed shares tell where they are exported
	// (decision 14): who reads the broker's queues learns it.
	Locations Opener
	// StateChange: instance.update is sent of each change of a server, and tells these changes of states.
	StateChange StateChange
	Logger      *slog.Logger
}

// Began writes the notification that an operation has begun.
func (w *Writer) Began(ctx context.Context, q *schema.Queries, op compute.OperationID) error {
	return w.write(ctx, q, op, nil, func(s subject, of compute.Notifications) []event {
		return []event{{of.Start, priorityInfo, s.action(false)}}
	})
}

// Ended writes the notifications that an operation that had begun is settled. was is ShareOf before what it did was written.
func (w *Writer) Ended(ctx context.Context, q *schema.Queries, op compute.OperationID, was *schema.ServerShare) error {
	return w.write(ctx, q, op, was, func(s subject, of compute.Notifications) []event {
		if s.operation.StartedAt == nil {
			return nil
		}
		if s.operation.State == compute.OperationSucceeded {
			return []event{{of.End, priorityInfo, s.action(false)}}
		}
		priority := priorityInfo
		if strings.HasSuffix(of.Error, ".error") {
			priority = priorityError
		}
		events := []event{{of.Error, priority, s.action(true)}}
		if m := s.operation.Message; s.operation.Kind == compute.OpCreate && m != nil && strings.Contains(*m, compute.NoValidHost) {
			events = append([]event{{buildFailed, priorityError, s.unplaced()}}, events...)
		}
		return events
	})
}

type event struct {
	name, priority string
	payload        object
}

func (w *Writer) write(ctx context.Context, q *schema.Queries, id compute.OperationID, was *schema.ServerShare, tell func(subject, compute.Notifications) []event) error {
	if w == nil {
		return nil
	}
	op, err := q.GetOperation(ctx, id)
	if err != nil || op.ServerID == (compute.ServerID{}) {
		return err
	}
	action, err := compute.ActionOf(op.Kind)
	if err != nil || action.Notifications == (compute.Notifications{}) {
		return err
	}
	s, err := w.load(ctx, q, op.ServerID)
	if err != nil {
		return err
	}
	s.operation = op
	if isOfShare(op) {
		if s.share, err = w.about(ctx, q, op.ServerID, arguments[compute.ShareArguments](op).Share, was); err != nil {
			return err
		}
	}
	return insert(ctx, q, s, tell(s, action.Notifications))
}

// insert puts events into the outbox.
func insert(ctx context.Context, q *schema.Queries, s subject, events []event) error {
	if len(events) == 0 {
		return nil
	}
	if err := q.LockNotifications(ctx, s.server.ID.UUID); err != nil {
		return err
	}
	for _, e := range events {
		row, err := e.row(s)
		if err != nil {
			return err
		}
		if err := q.InsertNotification(ctx, row); err != nil {
			return err
		}
	}
	return nil
}

// load reads what a server is.
func (w *Writer) load(ctx context.Context, q *schema.Queries, server compute.ServerID) (subject, error) {
	s := subject{shares: []object{}}
	var err error
	if s.now, err = q.DatabaseTime(ctx); err != nil {
		return s, err
	}
	if s.server, err = q.GetServer(ctx, server); err != nil {
		return s, err
	}
	if s.server.HostID != nil {
		if s.host, err = q.HostName(ctx, *s.server.HostID); err != nil {
			return s, err
		}
	}
	if !w.Shares {
		return s, nil
	}
	rows, err := q.ServerShares(ctx, server)
	if err != nil {
		return s, err
	}
	for _, row := range rows {
		s.shares = append(s.shares, versioned("SharePayload", "1.0", w.told(ctx, row)))
	}
	return s, nil
}

// row is an event as the outbox has it.
func (e event) row(s subject) (schema.InsertNotificationParams, error) {
	id := uuid.New()
	if s.operation.ID != "" {
		id = s.operation.ID.Derive("notification/" + e.name)
	}
	message, err := e.message(s, id)
	return schema.InsertNotificationParams{ID: id, EventType: e.name, Priority: e.priority, Message: message}, err
}

// message is an event as the broker is sent it: in oslo.messaging's envelope 2.0.
func (e event) message(s subject, id uuid.UUID) (string, error) {
	publisher := "nova-conductor:strongroom"
	if s.host != "" {
		publisher = "nova-compute:" + s.host
	}
	message, err := json.Marshal(map[string]any{
		"message_id": id, "_unique_id": strings.ReplaceAll(id.String(), "-", ""), "publisher_id": publisher, "event_type": e.name,
		"priority": e.priority, "payload": e.payload, "timestamp": s.now.UTC().Format(timeFormat),
	})
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(map[string]string{"oslo.version": "2.0", "oslo.message": string(message)})
	return string(body), err
}
