package port

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"strongroom/compute"
	"strongroom/durable"
)

// The activities; they run on the cloud queue.
var (
	Plug = durable.Activity[PlugInput, PlugResult]{Name: "port.Plug", Queue: durable.CloudQueue,
		Summary: func(in PlugInput) string { return "bind " + in.Name + " to " + in.Host }}
	Look = durable.Activity[LookInput, LookResult]{Name: "port.Look", Queue: durable.CloudQueue,
		Summary: func(LookInput) string { return "look whether the server's ports are active" }}
	Remove = durable.Activity[compute.Removal, durable.None]{Name: "port.Remove", Queue: durable.CloudQueue,
		Summary: compute.Removal.String}
	Seen = durable.Activity[compute.SeenInput, compute.SeenResult]{Name: "port.Seen", Queue: durable.CloudQueue,
		Summary: func(compute.SeenInput) string { return "list ports" }}
)

// PlugInput asks for one of a server's ports.
type PlugInput struct {
	Credential compute.Credential `json:"credential"`
	Server     compute.ServerID   `json:"server_id"`
	Network    compute.Network    `json:"network"` // with its port: as it was asked for, or as it was given before
	Name       string             `json:"name"`    // of the thing on the ledger that the port is
	Host       string             `json:"host"`    // as the network service knows it
	Zone       string             `json:"zone"`    // availability zone
	Hostname   string             `json:"hostname,omitempty"`
}

// PlugResult is the port, bound to the host.
type PlugResult struct {
	Network compute.Network `json:"network"`
	// Wait is how long its host may take to plug it until the port is active, 0: nobody waits;
	// Fatal: a server whose port is not active by then is none.
	Wait  time.Duration `json:"wait,omitempty"`
	Fatal bool          `json:"fatal,omitempty"`
}

// LookInput asks for a server's ports.
type LookInput struct {
	Credential compute.Credential `json:"credential"` // whose project has the server
	Server     compute.ServerID   `json:"server_id"`
	Ports      []ID               `json:"ports"`
}

// LookResult names those of the ports that are not active.
type LookResult struct {
	Inactive []ID `json:"inactive,omitempty"`
	// Failed are those of them that the network service gave up.
	Failed []ID `json:"failed,omitempty"`
}

// Activities are what workflows call of the network service.
type Activities struct {
	Service Service
	// PlugTimeout is how long a create waits until its ports are active, 0: not at all;
	// PlugFatal: it fails then.
	PlugTimeout time.Duration
	PlugFatal   bool
}

// Register registers the activities.
func (a *Activities) Register(r durable.Registry) {
	Plug.Register(r, a.Plug)
	Look.Register(r, a.Look)
	Prepare.Register(r, a.Prepare)
	Bind.Register(r, a.Bind)
	Release.Register(r, durable.NoResult(a.Release))
	Remove.Register(r, durable.NoResult(a.Remove))
	Seen.Register(r, a.Seen)
}

// Plug is the activity port.Plug: it ensures that a server has a port, and that this is bound to the
// host. The errors are those of Service.Ensure and Service.Bind; Conflict, too, for a binding
// that no host here can plug.
func (a *Activities) Plug(ctx context.Context, in PlugInput) (PlugResult, error) {
	id, err := a.ensure(ctx, in)
	if err != nil {
		return PlugResult{}, err
	}
	at := BindInput{Credential: in.Credential, Port: id, Server: in.Server, Host: in.Host, Zone: in.Zone, Hostname: in.Hostname}
	bound, err := a.Service.Bind(ctx, at)
	if err == nil {
		err = bound.VIF.checkHybrid(at)
	}
	if err != nil {
		return PlugResult{}, err
	}
	return PlugResult{Network: bound.Plugged(in.Network), Wait: a.PlugTimeout, Fatal: a.PlugFatal}, nil
}

// ensure gives the port that is to be bound.
func (a *Activities) ensure(ctx context.Context, in PlugInput) (ID, error) {
	asked := in.Network.Port
	switch {
	case asked == nil:
		return ID{}, compute.Errorf(compute.Invalid, "network %s is not the network service's", in.Network.UUID)
	case asked.Brought && asked.ID != nil:
		return *asked.ID, nil
	}
	network, err := parseNetwork(in.Network.UUID)
	if err != nil {
		return ID{}, err
	}
	want := EnsureInput{Credential: in.Credential, Name: in.Name, Server: in.Server, Network: network, Groups: asked.Groups}
	if asked.FixedIP != "" {
		if want.Address, err = netip.ParseAddr(asked.FixedIP); err != nil {
			return ID{}, compute.Errorf(compute.Invalid, "%q is no address", asked.FixedIP)
		}
	}
	made, err := a.Service.Ensure(ctx, want)
	return made.ID, err
}

// Look is the activity port.Look. NotFound: the server has one of the ports no longer.
func (a *Activities) Look(ctx context.Context, in LookInput) (LookResult, error) {
	has, err := a.Service.Attached(ctx, in.Credential, in.Server)
	if err != nil {
		return LookResult{}, err
	}
	var out LookResult
	for _, id := range in.Ports {
		at := slices.IndexFunc(has, func(p Port) bool { return p.ID == id })
		if at < 0 {
			return LookResult{}, Missing(id)
		}
		if has[at].Status != StatusActive && !has[at].Disabled {
			out.Inactive = append(out.Inactive, id)
		}
		if has[at].Status == StatusError {
			out.Failed = append(out.Failed, id)
		}
	}
	return out, nil
}

// Remove is the activity port.Remove: it ensures that there is no port that strongroom made by the
// thing's name, or that one which a user brought is the server's no longer. Forbidden: nobody may.
func (a *Activities) Remove(ctx context.Context, in compute.Removal) error {
	if in.Thing.Kind != compute.ThingPort {
		return in.Misdirected()
	}
	if compute.IsPortName(in.Thing.Name) {
		doomed := RemoveInput{Name: in.Thing.Name}
		if id, err := parseID(in.Thing.Reference); err == nil {
			doomed.ID = &id
		}
		return compute.WithAny(in.Credentials, func(cred compute.Credential) error {
			doomed.Credential = cred
			return a.Service.Remove(ctx, doomed)
		})
	}
	id, server, err := compute.ParsePortUse(in.Thing.Name)
	if err != nil {
		return err
	}
	return compute.WithAny(in.Credentials, func(cred compute.Credential) error {
		return a.Service.Unbind(ctx, UnbindInput{Credential: cred, Port: id, Server: server})
	})
}

// Seen is the activity port.Seen: the ports that strongroom made, and those of Known that servers
// have: other compute services' servers have ports, too.
func (a *Activities) Seen(ctx context.Context, in compute.SeenInput) (compute.SeenResult, error) {
	return in.ByProject(func(cred compute.Credential, _ string, _ int) (seen []compute.Seen, next string, err error) {
		has, err := a.Service.Attached(ctx, cred, compute.ServerID{})
		names := map[string]bool{}
		for _, p := range has {
			name, ours := p.Name, compute.IsPortName(p.Name)
			switch {
			case !ours:
				name = p.ID.String() + "/" + p.Device
			case names[name]: // a request that the service carried out after it was sent again
				name += "/" + p.ID.String()
			}
			names[name] = true
			if ours || slices.Contains(in.Known, name) {
				seen = append(seen, compute.Seen{Kind: compute.ThingPort, Name: name})
			}
		}
		return seen, "", err
	})
}
