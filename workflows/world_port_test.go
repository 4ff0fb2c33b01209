package workflows_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/activities/port"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// registerPorts registers the network service, which knows ports by their names on the ledger.
func (w *world) registerPorts(r registry) {
	register(w, r, port.Plug, func(_ context.Context, in port.PlugInput) (port.PlugResult, error) {
		w.made(compute.ThingPort, compute.PlaceNetworks, in.Name)
		n, known := in.Network, *in.Network.Port
		if known.ID == nil {
			known.ID = &compute.PortID{UUID: uuid.NewSHA1(uuid.Nil, []byte(in.Name))}
		}
		n.Port, n.MAC = &known, "fa:16:3e:00:00:01"
		n = pluggedAt(n, in.Host)
		w.ports[in.Name], w.portNames[*known.ID], w.prepared[in.Name] = in.Host+" "+in.Zone, in.Name, map[string]bool{}
		return port.PlugResult{Network: n, Wait: w.plugWait, Fatal: !w.plugOptional}, nil
	})
	register(w, r, port.Look, func(_ context.Context, in port.LookInput) (port.LookResult, error) {
		if w.inactive == 0 {
			return port.LookResult{}, nil
		}
		w.inactive--
		if w.portFailed {
			return port.LookResult{Inactive: in.Ports[:1], Failed: in.Ports[:1]}, nil
		}
		return port.LookResult{Inactive: in.Ports[:1]}, nil
	})
	register(w, r, port.Remove, func(_ context.Context, in compute.Removal) (none, error) {
		for key, power := range w.domains {
			host, instance, _ := strings.Cut(key, " ")
			off := slices.ContainsFunc(w.hosts, func(id compute.HostID) bool { return id.String() == host && (w.forced[id] || w.fencedOff[id]) })
			if power == compute.PowerRunning && !off && instance == w.row.server.InstanceName() && (w.interfaces[portOf(in.Thing)] || w.plugged[portOf(in.Thing)]) {
				w.broken = append(w.broken, "a port went before the domain that is plugged into it")
			}
		}
		delete(w.ports, in.Thing.Name)
		return none{}, w.mayRemove(in)
	})
	w.registerPortMoves(r)
	register(w, r, port.Seen, func(_ context.Context, in compute.SeenInput) (compute.SeenResult, error) {
		return ofProject(paged(in, w.seenAt(compute.PlaceNetworks, compute.ThingPort))), nil
	})
	registerOnHost(w, r, domain.Plug, func(_ context.Context, in domain.InterfaceInput) (none, error) {
		w.interfaces[in.Network.Port.ID.String()] = true
		return none{}, nil
	})
	registerOnHost(w, r, domain.Unplug, func(_ context.Context, in domain.InterfaceInput) (none, error) {
		if w.clings {
			return none{}, compute.Errorf(compute.Conflict, "the guest does not give it up")
		}
		delete(w.interfaces, in.Network.Port.ID.String())
		delete(w.plugged, in.Network.Port.ID.String())
		return none{}, nil
	})
	register(w, r, record.DropPort, func(_ context.Context, in record.DropPortInput) (none, error) {
		w.close(in.OperationInput, in.Close)
		_, gone := w.row.server.InterfaceOn(in.Port)
		if !in.Undo && !w.holds(in.OperationInput) && gone == nil {
			return none{}, record.Superseded()
		}
		if in.Undo && !w.holds(in.OperationInput) {
			return none{}, nil
		}
		w.row.server.Networks = slices.DeleteFunc(slices.Clone(w.row.server.Networks), func(n compute.Network) bool {
			return n.PortExists() && *n.Port.ID == in.Port
		})
		return none{}, nil
	})
	register(w, r, record.ClearPorts, func(_ context.Context, in durable.OperationInput) (none, error) {
		_ = w.fenced(in, w.clearPorts)
		return none{}, nil
	})
}

// pluggedAt gives an interface as a host plugs it: each host has a bridge of its own.
func pluggedAt(n compute.Network, host string) compute.Network {
	known := *n.Port
	known.Type, known.Bridge = compute.VIFOpenVSwitch, "br-"+host
	n.Port = &known
	return n
}

// nameOfHost is that of a host in the cloud.
func nameOfHost(id string) string { return "host-" + id[:4] }

func (w *world) registerPortMoves(r registry) {
	each := func(in port.MoveInput, do func(name string)) (port.MoveResult, error) {
		out := port.MoveResult{Networks: slices.Clone(in.Networks)}
		for i, n := range in.Networks {
			if !n.PortExists() {
				continue
			}
			if in.Host == w.unpluggable {
				return port.MoveResult{}, compute.Errorf(compute.NoHost, "host %s plugs no port", in.Host)
			}
			do(w.portNames[*n.Port.ID])
			out.Networks[i] = pluggedAt(n, in.Host)
		}
		return out, nil
	}
	register(w, r, port.Prepare, func(_ context.Context, in port.MoveInput) (port.MoveResult, error) {
		return each(in, func(name string) {
			if at, _, _ := strings.Cut(w.ports[name], " "); at != in.Host {
				w.prepared[name][in.Host] = true
			}
		})
	})
	register(w, r, port.Bind, func(_ context.Context, in port.MoveInput) (port.MoveResult, error) {
		return each(in, func(name string) {
			at, zone, _ := strings.Cut(w.ports[name], " ")
			if at != in.Host && w.prepared[name][in.Host] {
				w.prepared[name][at] = true // the one that was active is inactive
			}
			delete(w.prepared[name], in.Host)
			w.ports[name] = in.Host + " " + cmp.Or(in.Zone, zone)
			for _, host := range in.Withdraw {
				delete(w.prepared[name], host)
			}
		})
	})
	register(w, r, port.Release, func(_ context.Context, in port.ReleaseInput) (none, error) {
		for _, id := range in.Ports {
			w.ports[w.portNames[id]], w.prepared[w.portNames[id]] = "", map[string]bool{}
		}
		return none{}, nil
	})
}

// plugs notes that a domain comes to a host that its ports are not ready for: before it runs there they are bound
// to the host, or, of a guest that comes running, prepared for it.
func (w *world) plugs(host string, networks []compute.Network, running bool) {
	for _, n := range networks {
		if !n.PortExists() {
			continue
		}
		name := w.portNames[*n.Port.ID]
		at, _, _ := strings.Cut(w.ports[name], " ")
		if is := nameOfHost(host); n.Port.Bridge != "br-"+is || running && !w.prepared[name][is] || !running && at != is {
			w.broken = append(w.broken, "a domain came to "+is+" before its port "+name+", which is at "+at)
		}
	}
}

// portsFollow requires that each of the server's ports is bound to the host that the record says, and to no other one.
func (b *bench) portsFollow() {
	b.t.Helper()
	if b.row.server.IsOffloaded() && b.row.current != "" {
		return // an unshelve, or an offload, that was decided is another operation's by now
	}
	for name, bound := range b.ports {
		require.Empty(b.t, b.prepared[name], name)
		at, _, _ := strings.Cut(bound, " ")
		if b.row.server.Host == nil || b.row.server.IsOffloaded() {
			require.Empty(b.t, at, name)
		} else {
			require.Equal(b.t, nameOfHost(b.row.server.Host.String()), at, name)
		}
	}
}

// portOf is the id of a port on the ledger.
func portOf(t compute.Thing) string {
	if id, _, err := compute.ParsePortUse(t.Name); err == nil {
		return id.String()
	}
	return uuid.NewSHA1(uuid.Nil, []byte(t.Name)).String()
}

func (w *world) clearPorts() {
	if w.row.server.UsesPorts() {
		w.row.server.Networks = []compute.Network{}
	}
}

// plugTimeout is how long creates of the bench wait for their ports.
const plugTimeout = 5 * time.Minute
