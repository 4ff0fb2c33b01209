package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"strongroom/api/fault"
	"strongroom/compute"
	"strongroom/schema"
)

// requestedNetwork is an item of a create's networks.
type requestedNetwork struct {
	UUID    string  `json:"uuid"`
	Port    *string `json:"port"`
	FixedIP string  `json:"fixed_ip"`
	Tag     string  `json:"tag"`
}

// planNetworks reads what a create says of its interfaces: on networks of the network service or,
// where there is none, of hosts.
func (a *API) planNetworks(r *Request, p *serverPlan) (err error) {
	if a.config.Networks != nil {
		p.ports, err = a.planPorts(r, p)
		return err
	}
	for _, group := range p.SecurityGroups {
		if group.Name != compute.DefaultGroup {
			return fault.BadRequest("Unable to find security_group with name or id '%s'", group.Name)
		}
	}
	p.attach, err = a.networks(r, p.Networks)
	return err
}

// networks reads what a create says of its interfaces. "auto", and nothing said
// below 2.37, is the one network that hosts have (automatic).
func (a *API) networks(r *Request, text json.RawMessage) ([]requestedNetwork, error) {
	var word string
	if json.Unmarshal(text, &word) == nil && word == "none" {
		return nil, nil
	}
	known, err := a.db.NetworkIDs(r.Context(), r.ProjectID())
	if err != nil {
		return nil, err
	}
	if len(text) == 0 || word == "auto" || string(text) == "null" {
		return automatic(known)
	}
	var asked []requestedNetwork
	if err := json.Unmarshal(text, &asked); err != nil {
		return nil, fault.BadRequest("Bad networks format")
	}
	if len(asked) == 0 && r.Version < 37 {
		return automatic(known)
	}
	if len(asked) > maxNetworks {
		return nil, fault.BadRequest("A server has at most %d networks.", maxNetworks)
	}
	for i, n := range asked {
		_, err := uuid.Parse(n.UUID)
		at := slices.IndexFunc(known, func(k schema.NetworkIDsRow) bool { return strings.EqualFold(k.ID, n.UUID) })
		switch {
		case n.Port != nil:
			return nil, fault.BadRequest("Port id %s could not be found.", *n.Port)
		case err != nil:
			return nil, fault.BadRequest("Bad networks format: network uuid is not in proper format (%s)", n.UUID)
		case n.FixedIP != "":
			return nil, fault.BadRequest("fixed_ip is not supported: a network gives its servers their addresses.")
		case at < 0:
			return nil, fault.BadRequest("Network %s could not be found.", n.UUID)
		}
		asked[i].UUID = known[at].ID // as hosts write it
	}
	return asked, nil
}

// automatic gives the one network that hosts have: with none there is no interface, with several the
// client must say which. Those that a single host has do not count beside one that more have: what
// one host invents is no reason to refuse a create (H8).
func automatic(known []schema.NetworkIDsRow) ([]requestedNetwork, error) {
	alone := func(k schema.NetworkIDsRow) bool { return k.Hosts == 1 }
	if shared := slices.DeleteFunc(slices.Clone(known), alone); len(shared) > 0 {
		known = shared
	}
	switch len(known) {
	case 0:
		return nil, nil
	case 1:
		return []requestedNetwork{{UUID: known[0].ID}}, nil
	default:
		return nil, fault.Conflict("Multiple possible networks found, use a Network ID to be more specific.")
	}
}

// interfaces gives a server's interfaces. A port that its user brings is the server's from here on.
func (p *serverPlan) interfaces(ctx context.Context, q *schema.Queries, op compute.Operation) ([]compute.Network, error) {
	if p.ports == nil {
		return interfaces(ctx, q, op, p.attach)
	}
	for _, n := range p.ports {
		if n.Port.ID == nil {
			continue
		}
		taken, err := q.TakePort(ctx, schema.TakePortParams{PortID: *n.Port.ID, ServerID: op.ServerID})
		if err != nil {
			return nil, err
		}
		if taken == 0 {
			return nil, compute.PortInUse(*n.Port.ID)
		}
	}
	return p.ports, nil
}

// interfaces gives a server's interfaces, each with an address that no other server has. Those
// are derived from the operation; another server's is passed over.
func interfaces(ctx context.Context, q *schema.Queries, op compute.Operation, asked []requestedNetwork) ([]compute.Network, error) {
	out := []compute.Network{}
	for i, n := range asked {
		for try := 0; ; try++ {
			mac := macAddress(op.ID.Derive(fmt.Sprintf("mac/%d/%d", i, try)))
			taken, err := q.TakeMAC(ctx, schema.TakeMACParams{Mac: mac, ServerID: op.ServerID})
			if err != nil {
				return nil, err
			}
			if taken == 1 {
				out = append(out, compute.Network{UUID: n.UUID, MAC: mac, Tag: n.Tag})
				break
			}
		}
	}
	return out, nil
}

// macAddress makes an address of 44 random bits: x2 is IEEE's quadrant of the addresses that
// administrators assign. OpenStack's fa:16:3e and QEMU's 52:54:00 would leave 24 bits, of which
// two servers among 5,000 share one; fe, which libvirt keeps for its own ends, cannot occur.
func macAddress(random uuid.UUID) string {
	return fmt.Sprintf("%x2:%02x:%02x:%02x:%02x:%02x", random[0]&0xf, random[1], random[2], random[3], random[4], random[5])
}
