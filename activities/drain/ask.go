package drain

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/durable/outbox"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// Ask has a host take no new servers, and begins a drain of it, which is still to be started. While
// one is under way it gives that one: begun is false. Invalid: the arguments make no sense;
// Conflict: the host does not answer.
func Ask(ctx context.Context, pool *pgxpool.Pool, host durable.Host, in compute.DrainArguments) (op compute.Operation, begun bool, err error) {
	if err := in.Check(); err != nil {
		return op, false, err
	}
	arguments, err := json.Marshal(in)
	if err != nil {
		return op, false, err
	}
	err = fence.Transaction(ctx, pool, func(q *schema.Queries) error {
		// The lock that claims take: none comes after it to a host that is disabled.
		row, err := q.LockHost(ctx, host.ID)
		if err != nil {
			return err
		}
		last, found, err := newest(ctx, q, host.ID)
		if err != nil {
			return err
		}
		if begun = !found || last.State.Settled(); !begun {
			op = last.Operation()
			return nil
		}
		if (compute.Host{LastSeen: row.LastSeen, ForcedDown: row.ForcedDown || row.ForgottenAt != nil}).Up(time.Now()) {
			op = compute.Operation{
				ID: compute.NewOperationID(), Subject: compute.HostOwner(host.ID), Kind: compute.OpDrain, State: compute.OperationAccepted,
				Credential: compute.DeploymentCredential(), Arguments: arguments,
			}
			if err := q.DrainHost(ctx, schema.DrainHostParams{ID: host.ID, Reason: compute.DrainReason(op.ID)}); err != nil {
				return err
			}
			return outbox.Accept(ctx, q, op, nil)
		}
		return compute.Errorf(compute.Conflict, "host %s does not answer: what is on it cannot be moved", host.Name)
	})
	return op, begun && err == nil, err
}

// Stop lets a host's drain begin nothing more: what is under way ends, and the drain with it.
// Conflict: none is under way.
func Stop(ctx context.Context, pool *pgxpool.Pool, host durable.Host) error {
	return fence.Transaction(ctx, pool, func(q *schema.Queries) error {
		last, found, err := newest(ctx, q, host.ID)
		if err != nil {
			return err
		}
		if found {
			rows, err := q.CancelDrain(ctx, last.ID)
			if err != nil || rows > 0 {
				return err
			}
		}
		return compute.Errorf(compute.Conflict, "host %s is not being drained", host.Name)
	})
}

// Enable has a host take servers again. Conflict: it is being drained.
func Enable(ctx context.Context, pool *pgxpool.Pool, host durable.Host) error {
	return fence.Transaction(ctx, pool, func(q *schema.Queries) error {
		if err := schema.MayEnable(ctx, q, host.ID); err != nil {
			return err
		}
		enabled := false
		_, err := q.SwitchHost(ctx, schema.SwitchHostParams{ID: host.ID, Disabled: &enabled})
		return err
	})
}

// Report is how far the newest drain of a host is.
type Report struct {
	Host      durable.Host           `json:"host"`
	Operation compute.OperationID    `json:"operation_id"`
	State     compute.OperationState `json:"state"`
	Message   string                 `json:"message,omitempty"`
	compute.DrainArguments
	ToGo     int      `json:"to_go"`     // servers that it has not taken up
	ToRemove int      `json:"to_remove"` // things that the host is still to remove, of whatever server: its disks have data of these
	Servers  []Server `json:"servers"`
}

// Server is what became of one server.
type Server struct {
	ID        compute.ServerID    `json:"id"`
	Name      string              `json:"name"`
	State     compute.DrainState  `json:"state"`
	Operation compute.OperationID `json:"operation_id,omitempty"` // that moves or confirms it, or the last one that did
	Reason    string              `json:"reason,omitempty"`       // why it, or something of it, is still on the host
	ToRemove  int                 `json:"to_remove,omitempty"`    // things of it that the host is still to remove
}

// Count gives how many servers are in one of the states.
func (r Report) Count(states ...compute.DrainState) (n int) {
	for _, s := range r.Servers {
		for _, state := range states {
			if s.State == state {
				n++
			}
		}
	}
	return n
}

// Look reads how far the newest drain of a host is. NotFound: there was none.
func Look(ctx context.Context, pool *pgxpool.Pool, host durable.Host) (out Report, err error) {
	err = fence.Transaction(ctx, pool, func(q *schema.Queries) error {
		last, found, err := newest(ctx, q, host.ID)
		if err != nil {
			return err
		}
		if !found {
			return compute.Errorf(compute.NotFound, "host %s was never drained", host.Name)
		}
		out = Report{Host: host, Operation: last.ID, State: last.State, Message: last.Operation().Message, Servers: []Server{}}
		if out.DrainArguments, err = argumentsOf(last); err != nil {
			return err
		}
		if !last.State.Settled() {
			n, err := q.CountServersToDrain(ctx, schema.CountServersToDrainParams{HostID: host.ID.UUID, OperationID: last.ID})
			if err != nil {
				return err
			}
			out.ToGo = int(n)
		}
		waiting, err := q.CountWaitingOn(ctx, &host.ID)
		if err != nil {
			return err
		}
		out.ToRemove = int(waiting)
		rows, err := q.DrainedServers(ctx, last.ID)
		for _, row := range rows {
			s := Server{ID: row.ServerID, Name: row.Name, State: row.State, Operation: row.Child, Reason: row.Message, ToRemove: int(row.ToRemove)}
			if s.State == compute.DrainMoved && s.ToRemove > 0 {
				s.Reason = fmt.Sprintf("the host is still to remove %d things of it", s.ToRemove)
			}
			out.Servers = append(out.Servers, s)
		}
		return err
	})
	return out, err
}
