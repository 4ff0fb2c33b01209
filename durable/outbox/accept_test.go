package outbox_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/durable/outbox"
	"strongroom/schema"
	"strongroom/schema/fence"
	"strongroom/schema/schematest"
)

// An operation is on record with the token that it acts with, which the operations of one
// request share; one that has ended needs none.
func TestAccept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server := b.Server(compute.OpCreate).ServerID
	operation := func(on compute.Owner, state compute.OperationState) compute.Operation {
		op := compute.Operation{ID: compute.NewOperationID(), Kind: compute.OpStop, State: state, Credential: schematest.Owner, Arguments: []byte(`{"a": 1}`)}
		if op.Subject = on; on == (compute.Owner{}) {
			op.ServerID = server
		}
		return op
	}
	host := compute.Owner{Kind: compute.OwnerHost, ID: uuid.New()}
	for _, op := range []compute.Operation{
		operation(compute.Owner{}, compute.OperationAccepted), operation(host, compute.OperationAccepted),
		operation(compute.Owner{}, compute.OperationSucceeded),
	} {
		require.NoError(t, fence.Transaction(b.Ctx, b.DB, func(q *schema.Queries) error { return outbox.Accept(b.Ctx, q, op, []byte("sealed")) }))
		row, err := b.Q.GetOperation(b.Ctx, op.ID)
		require.NoError(t, err)
		got := row.Operation()
		require.WithinDuration(t, time.Now(), got.AcceptedAt, time.Minute)
		got.AcceptedAt = time.Time{}
		require.Equal(t, op, got)
		require.Equal(t, op.State.Settled(), row.FinishedAt != nil)
		require.Equal(t, op.State.Settled(), row.StartedAt != nil)
	}
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM credentials WHERE sealed = 'sealed'"))

	b.Exec("DELETE FROM credentials")
	without := operation(host, compute.OperationAccepted)
	require.NoError(t, outbox.Accept(b.Ctx, b.Q, without, nil), "strongroom's own has no token")
	settled := operation(compute.Owner{}, compute.OperationSucceeded)
	require.NoError(t, outbox.Accept(b.Ctx, b.Q, settled, []byte("sealed")))
	require.Zero(t, b.CountRows("SELECT count(*) FROM credentials"))
}

// starter answers starts one after another.
type starter func(n int32, op compute.Operation) error

type starts struct {
	answer starter
	n      atomic.Int32
}

func (s *starts) Start(_ context.Context, op compute.Operation) error {
	return s.answer(s.n.Add(1), op)
}

func (s *starts) CancelExecution(_ context.Context, op compute.Operation) error {
	return s.answer(s.n.Add(1), op)
}

func launcher(answer starter) (*outbox.Launcher, *starts) {
	s := &starts{answer: answer}
	return &outbox.Launcher{Starter: s, Logger: slog.New(slog.DiscardHandler)}, s
}

// The end of the operation before is waited for; other trouble is left to Repair.
func TestLaunch(t *testing.T) {
	t.Parallel()
	ops := []compute.Operation{{ID: "req-1"}, {ID: "req-2"}}
	l, s := launcher(func(n int32, op compute.Operation) error {
		switch {
		case op.ID == "req-1":
			return errors.New("no")
		case n < 4:
			return compute.Errorf(compute.Conflict, "ending")
		}
		return nil
	})
	l.Launch(t.Context(), ops)
	l.Wait(t.Context())
	require.Equal(t, int32(4), s.n.Load())
}

// A launch goes on when its caller is gone, and is waited for as long as there is time.
func TestLaunchGoesOn(t *testing.T) {
	t.Parallel()
	held, begun := make(chan struct{}), make(chan struct{})
	l, s := launcher(func(int32, compute.Operation) error {
		close(begun)
		<-held
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.Launch(ctx, []compute.Operation{{ID: "req-1"}}) // comes back though it is held
	<-begun
	l.Wait(ctx)
	close(held)
	l.Wait(t.Context())
	require.Equal(t, int32(1), s.n.Load())
}
