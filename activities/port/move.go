package port

import (
	"context"
	"slices"

	"strongroom/compute"
	"strongroom/durable"
)

// The activities by which a server's ports go with it from host to host; strongroom's own user binds
// them, whoever asks. They run on the cloud queue.
var (
	Prepare = durable.Activity[MoveInput, MoveResult]{Name: "port.Prepare", Queue: durable.CloudQueue,
		Summary: func(in MoveInput) string { return "prepare the server's ports for " + in.Host }}
	Bind = durable.Activity[MoveInput, MoveResult]{Name: "port.Bind", Queue: durable.CloudQueue,
		Summary: func(in MoveInput) string { return "bind the server's ports to " + in.Host }}
	Release = durable.Activity[ReleaseInput, durable.None]{Name: "port.Release", Queue: durable.CloudQueue,
		Summary: func(ReleaseInput) string { return "unbind the server's ports, and keep them" }}
)

// MoveInput says where a server's ports are to be bound.
type MoveInput struct {
	Project  string            `json:"project_id"` // that has server and ports
	Server   compute.ServerID  `json:"server_id"`
	Networks []compute.Network `json:"networks"` // its interfaces, of which some may have ports
	Host     string            `json:"host"`     // as the network service knows it
	Zone     string            `json:"zone"`     // its availability zone; "": as before
	// Withdraw are hosts at which Bind leaves no binding: where the ports were, or were prepared for.
	Withdraw []string `json:"not,omitempty"`
}

// MoveResult are the server's interfaces as they are plugged at the host.
type MoveResult struct {
	Networks []compute.Network `json:"networks"`
}

// ReleaseInput names a server that is on no host.
type ReleaseInput struct {
	Project string           `json:"project_id"`
	Server  compute.ServerID `json:"server_id"`
	Ports   []ID             `json:"ports"`
}

// Prepare is the activity port.Prepare: it ensures that each of a server's ports has a binding at the
// host, beside the active one where it is bound now. NoHost: that host cannot plug one of them.
func (a *Activities) Prepare(ctx context.Context, in MoveInput) (MoveResult, error) {
	return in.each(func(at BindInput, n compute.Network) (compute.Network, error) {
		vif, err := a.Service.Prepare(ctx, at)
		if err == nil {
			err = vif.checkHybrid(at)
		}
		return vif.plugged(n), at.noHost(err)
	})
}

// Bind is the activity port.Bind: it ensures that each of a server's ports is bound to the host, and to
// none of in.Withdraw. The errors are those of Prepare.
func (a *Activities) Bind(ctx context.Context, in MoveInput) (MoveResult, error) {
	return in.each(func(at BindInput, n compute.Network) (compute.Network, error) {
		if err := a.Service.Activate(ctx, at); err != nil && !compute.Is(err, compute.NotFound) { // else it is not prepared
			return n, err
		}
		bound, err := a.Service.Bind(ctx, at)
		if err == nil {
			err = bound.VIF.checkHybrid(at)
		}
		if err != nil {
			return n, at.noHost(err)
		}
		for _, host := range in.Withdraw {
			if host == in.Host {
				continue
			}
			before := at
			before.Host = host
			if err := a.Service.Withdraw(ctx, before); err != nil {
				return n, err
			}
		}
		return bound.Plugged(n), nil
	})
}

// each does something with each of the server's ports. One that is there no longer is left as it is known: its user
// may have deleted it in the network service, which keeps nobody from his server.
func (in MoveInput) each(do func(BindInput, compute.Network) (compute.Network, error)) (MoveResult, error) {
	out := MoveResult{Networks: slices.Clone(in.Networks)}
	for i, n := range in.Networks {
		if !n.PortExists() {
			continue
		}
		at := BindInput{Credential: compute.Credential{ProjectID: in.Project}, Port: *n.Port.ID, Server: in.Server, Host: in.Host, Zone: in.Zone}
		done, err := do(at, n)
		switch {
		case err == nil:
			out.Networks[i] = done
		case !compute.Is(err, compute.NotFound):
			return MoveResult{}, err
		}
	}
	return out, nil
}

// noHost gives the refusal of a host that cannot plug a port its kind: another host may.
func (in BindInput) noHost(err error) error {
	if compute.Is(err, compute.Conflict) {
		return compute.Errorf(compute.NoHost, "host %s: %w", in.Host, err)
	}
	return err
}

// Release is the activity port.Release: it ensures that none of a server's ports is bound, and that they
// stay the server's.
func (a *Activities) Release(ctx context.Context, in ReleaseInput) error {
	for _, id := range in.Ports {
		if err := a.Service.Unbind(ctx, UnbindInput{Credential: compute.Credential{ProjectID: in.Project}, Port: id, Server: in.Server, Keep: true}); err != nil {
			return err
		}
	}
	return nil
}
