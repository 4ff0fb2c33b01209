package record

import (
	"context"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// DropPort takes one of a server's interfaces off the record.
var DropPort = durable.Activity[DropPortInput, durable.None]{
	Name: "record.DropPort", Queue: durable.RecordQueue,
	Summary: func(in DropPortInput) string { return stepSummary("forget port "+in.Port.String(), in.Close, nil) },
}

// DropPortInput says which port a server has no longer.
type DropPortInput struct {
	durable.OperationInput
	Close *Close         `json:"close,omitempty"` // the step before
	Port  compute.PortID `json:"port_id"`
	// Undo: the operation gave the server the port and takes it away again. Where another one has taken
	// over the server, its record stays as it is, and the port is free.
	Undo bool `json:"undo,omitempty"`
}

// ClearPorts is the undo of AdvanceInput.Networks, and of the claim that a create has on the ports
// that its user brings.
var ClearPorts = durable.Activity[durable.OperationInput, durable.None]{
	Name: "record.ClearPorts", Queue: durable.RecordQueue,
	Summary: func(durable.OperationInput) string { return "clear the server's ports" },
}

// savePorts puts a server's interfaces on record, and its ports as its own. Conflict: another server has one.
func savePorts(ctx context.Context, q *schema.Queries, server compute.ServerID, networks []compute.Network) error {
	if networks == nil {
		return nil
	}
	for _, n := range networks {
		if !n.PortExists() {
			continue
		}
		taken, err := q.TakePort(ctx, schema.TakePortParams{PortID: *n.Port.ID, ServerID: server})
		if err != nil {
			return err
		}
		if taken == 0 {
			return compute.PortInUse(*n.Port.ID)
		}
	}
	return q.SetServerNetworks(ctx, schema.SetServerNetworksParams{ID: server, Networks: networks})
}

// DropPort is the activity record.DropPort. Without Undo it is an operation's point of no return: Superseded if
// another one has taken over the server.
func (a *Activities) DropPort(ctx context.Context, in DropPortInput) error {
	drop := func(q *schema.Queries) error {
		if err := q.ReleasePort(ctx, schema.ReleasePortParams{PortID: in.Port, ServerID: in.Server}); err != nil {
			return err
		}
		return q.ForgetPort(ctx, schema.ForgetPortParams{ID: in.Server, Port: in.Port.String()})
	}
	if in.Undo {
		return a.transaction(ctx, func(q *schema.Queries) error {
			owned, err := fence.LockIfOwned(ctx, q, in.Operation, in.Server)
			if err != nil {
				return err
			}
			if owned {
				return drop(q)
			}
			return q.ReleasePort(ctx, schema.ReleasePortParams{PortID: in.Port, ServerID: in.Server})
		})
	}
	return a.decide(ctx, decision{
		OperationInput: in.OperationInput, close: in.Close, do: drop,
		alreadyDecided: func(q *schema.Queries) (bool, error) {
			has, err := q.ServerHasPort(ctx, schema.ServerHasPortParams{PortID: in.Port, ServerID: in.Server})
			return !has, err
		},
	})
}

// ClearPorts is the activity record.ClearPorts. A server that another operation has taken over is
// left as it is.
func (a *Activities) ClearPorts(ctx context.Context, in durable.OperationInput) error {
	return a.transaction(ctx, func(q *schema.Queries) error {
		owned, err := fence.LockIfOwned(ctx, q, in.Operation, in.Server)
		if err != nil || !owned {
			return err
		}
		return clearPorts(ctx, q, in.Server)
	})
}

// clearPorts leaves a server without interfaces in the network service.
func clearPorts(ctx context.Context, q *schema.Queries, server compute.ServerID) error {
	if err := q.ReleasePorts(ctx, server); err != nil {
		return err
	}
	return q.ForgetPorts(ctx, server)
}
