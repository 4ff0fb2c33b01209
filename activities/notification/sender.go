package notification

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/schema"
	"strongroom/schema/fence"
)

// Message is a notification as the broker is sent it.
type Message struct {
	ID       string
	Priority string // INFO or ERROR
	Body     []byte // JSON
}

// Broker takes messages.
type Broker interface {
	// Send gives messages to the broker, in order, and comes back when it has confirmed to
	// keep each of them. taken is how many it did before an error.
	Send(ctx context.Context, messages []Message) (taken int, err error)
	// Close ends the connection, if there is one.
	Close()
}

// How a Sender goes about it.
const (
	senderPause = time.Second
	sendLimit   = 20 * time.Second // for one batch
	batch       = 200
	firstRetry  = 2 * time.Second
	lastRetry   = time.Minute
)

// Sender sends what is in the outbox. Of all Senders of a database one does at a time.
type Sender struct {
	Pool   *pgxpool.Pool
	Broker Broker
	Writer *Writer // makes the messages of changes of servers
	Logger *slog.Logger

	stop context.CancelFunc
	done sync.WaitGroup
}

// Start begins to send, until Stop.
func (s *Sender) Start() error {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.done.Go(func() { s.run(ctx) })
	return nil
}

// Stop ends it.
func (s *Sender) Stop() {
	s.stop()
	s.done.Wait()
	s.Broker.Close()
}

func (s *Sender) run(ctx context.Context) {
	pause, failing := senderPause, false
	for {
		more, err := s.Send(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			pause = min(max(2*pause, firstRetry), lastRetry)
			s.Logger.WarnContext(ctx, "notifications wait for the message broker", "again_in", pause, "error", err)
			failing = true
		case failing:
			s.Logger.InfoContext(ctx, "the message broker takes notifications again")
			pause, failing = senderPause, false
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// Send sends a batch of the outbox. What the broker has confirmed is deleted from it; where
// that is not committed any more, it is sent again. more: there may be another batch.
func (s *Sender) Send(ctx context.Context) (more bool, err error) {
	var failed error
	err = fence.Transaction(ctx, s.Pool, func(q *schema.Queries) error {
		more, failed = false, nil
		locked, err := q.TryLockOutbox(ctx)
		if err != nil || !locked {
			return err
		}
		rows, err := q.NextNotifications(ctx, batch)
		if err != nil || len(rows) == 0 {
			return err
		}
		messages, numbers, gone, err := s.messages(ctx, q, rows)
		if err != nil {
			return err
		}
		sending, cancel := context.WithTimeout(ctx, sendLimit)
		defer cancel()
		var taken int
		taken, failed = s.Broker.Send(sending, messages)
		more = failed == nil && len(rows) == batch
		return q.DeleteNotifications(ctx, append(gone, numbers[:taken]...))
	})
	if err == nil {
		err = failed
	}
	return more && err == nil, err
}

// messages gives what rows of the outbox tell, and the rows' numbers. gone are the numbers of those that
// tell of servers whose rows were removed from the database meanwhile.
func (s *Sender) messages(ctx context.Context, q *schema.Queries, rows []schema.Notification) (messages []Message, numbers, gone []int64, err error) {
	for _, row := range rows {
		if row.Message == nil {
			body, err := s.Writer.body(ctx, q, row)
			if errors.Is(err, pgx.ErrNoRows) {
				gone = append(gone, row.Number)
				continue
			}
			if err != nil {
				return nil, nil, nil, err
			}
			row.Message = &body
		}
		messages = append(messages, Message{ID: row.ID.String(), Priority: row.Priority, Body: []byte(*row.Message)})
		numbers = append(numbers, row.Number)
	}
	return messages, numbers, gone, nil
}
