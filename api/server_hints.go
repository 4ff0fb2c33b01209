package api

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"strongroom/api/fault"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const (
	ruleForcedHost    = "os_compute_api:servers:create:forced_host"
	ruleRequestedHost = "compute:servers:create:requested_destination"
)

// manyServers are servers that a hint names.
var manyServers = validation.Schema{"oneOf": []validation.Schema{
	validation.UUID, {"type": "array", "items": validation.UUID, "uniqueItems": true},
}}

var hints = validation.Open(validation.Properties{"group": validation.UUID, "different_host": manyServers, "same_host": manyServers})

// requestedHints are what a create asks of its host, beside what flavor and image say.
type requestedHints struct {
	Group     *uuid.UUID `json:"group"`
	Different oneOrMore  `json:"different_host"`
	Same      oneOrMore  `json:"same_host"`
}

// oneOrMore are servers: a list, or one by itself.
type oneOrMore []uuid.UUID

// UnmarshalJSON implements json.Unmarshaler. The schema has seen the value.
func (o *oneOrMore) UnmarshalJSON(text []byte) error {
	var many []uuid.UUID
	if err := json.Unmarshal(text, &many); err == nil {
		*o = many
		return nil
	}
	var one uuid.UUID
	err := json.Unmarshal(text, &one)
	*o = oneOrMore{one}
	return err
}

// readHints reads the hints of a create. One that is not known is refused: the server would be
// elsewhere than it was asked for.
func readHints(body json.RawMessage) (in requestedHints, err error) {
	if body == nil {
		return in, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		return in, err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains([]string{"group", "different_host", "same_host"}, name) {
			return in, fault.BadRequest("Scheduler hint '%s' is not supported. Those that are: group, different_host, same_host.", name)
		}
	}
	return in, json.Unmarshal(body, &in)
}

// placement is what a create asks of its host, as it was found.
type placement struct {
	group     *schema.ServerGroup
	different []uuid.UUID
	same      []uuid.UUID
	host      *compute.HostID
}

// isNone reports whether any host will do.
func (p placement) isNone() bool {
	return p.group == nil && len(p.different)+len(p.same) == 0 && p.host == nil
}

// planPlacement finds what hints and the names of hosts stand for.
func (a *API) planPlacement(r *Request, in *createRequest) (p placement, err error) {
	if p.host, err = a.requestedHost(r, in); err != nil {
		return p, err
	}
	if id := in.hints.Group; id != nil {
		group, err := a.findServerGroup(r, id.String())
		var refused *fault.Fault
		if errors.As(err, &refused) {
			return p, fault.BadRequest("%s", refused.Message)
		}
		if err != nil {
			return p, err
		}
		p.group = &group
	}
	p.different, p.same = in.hints.Different, in.hints.Same
	return p, a.checkVisible(r, slices.Concat(p.different, p.same))
}

// checkVisible refuses servers that are not there, or that the caller may not see: he would learn
// where they are.
func (a *API) checkVisible(r *Request, named []uuid.UUID) error {
	if len(named) == 0 {
		return nil
	}
	in := schema.VisibleServersParams{Servers: named}
	if project := r.ProjectID(); !r.IsAdmin() {
		in.ProjectID = &project
	}
	found, err := a.db.VisibleServers(r.Context(), in)
	if err != nil {
		return err
	}
	for _, id := range named {
		if !slices.Contains(found, compute.ServerID{UUID: id}) {
			return fault.BadRequest("Instance %s could not be found.", id)
		}
	}
	return nil
}

// requestedHost finds the host that a create names, in one of two ways: in its availability zone,
// as "zone:host", or from 2.74 on as host and hypervisor_hostname. Either host must have room and
// what the server needs.
func (a *API) requestedHost(r *Request, in *createRequest) (*compute.HostID, error) {
	zone, forced, err := splitZone(in.AvailabilityZone)
	if err != nil {
		return nil, err
	}
	in.AvailabilityZone = zone
	var names []string
	for _, name := range []*string{in.Host, in.Hypervisor} {
		if name != nil && *name != "" {
			names = append(names, *name)
		}
	}
	switch {
	case len(names) == 0 && len(forced) == 0:
		return nil, nil
	case len(names) == 0:
		names, err = forced, r.Enforce(ruleForcedHost)
	case len(forced) == 0:
		err = r.Enforce(ruleRequestedHost)
	default:
		err = fault.BadRequest("One mechanism with host and/or hypervisor_hostname and another mechanism with zone:host:node are mutually exclusive.")
	}
	if err != nil {
		return nil, err
	}
	return a.oneHost(r, zone, names)
}

// oneHost finds the host of a name, which has each name that is given.
func (a *API) oneHost(r *Request, zone string, names []string) (*compute.HostID, error) {
	host, err := a.db.NamedHost(r.Context(), names[0])
	if errors.Is(err, pgx.ErrNoRows) || len(names) > 1 && names[1] != names[0] {
		return nil, fault.BadRequest("Compute host %s could not be found.", names[0])
	}
	if err != nil {
		return nil, err
	}
	if zone != "" && host.Zone != zone {
		return nil, fault.BadRequest("Host %s is not in availability zone %s.", names[0], zone)
	}
	return &host.ID, nil
}

// splitZone takes apart what an availability zone may be: "zone", "zone:host", "zone:host:node",
// "zone::node". The zone may be empty where there is a host.
func splitZone(text string) (zone string, hosts []string, err error) {
	parts := strings.Split(text, ":")
	if len(parts) > 3 {
		return "", nil, fault.BadRequest("Invalid input received: Unable to parse availability_zone")
	}
	for _, host := range parts[1:] {
		if host != "" {
			hosts = append(hosts, host)
		}
	}
	return parts[0], hosts, nil
}

// join puts on record what a server's create asks of its host, and asks the quota of its group.
func (p *serverPlan) join(ctx context.Context, q *schema.Queries, op compute.Operation) error {
	at := p.placement
	if at.isNone() {
		return nil
	}
	in := schema.InsertServerHintsParams{
		ServerID: op.ServerID, DifferentHost: orNone(at.different), SameHost: orNone(at.same), HostID: at.host,
	}
	if at.host != nil {
		in.RequestedBy = op.ID
	}
	if at.group != nil {
		in.GroupID = &at.group.ID
	}
	err := q.InsertServerHints(ctx, in)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.ConstraintName == "server_hints_group_id_fkey" { // the group was deleted since it was looked for
		return fault.BadRequest("%s", noGroup(at.group.ID.String()))
	}
	return err
}

// checkMemberQuota asks how many servers a group may have of one user. The project's lock is held
// until the transaction ends.
func (p *serverPlan) checkMemberQuota(r *Request, q *schema.Queries) error {
	group := p.placement.group
	if group == nil || p.quota.GroupMembers < 0 {
		return nil
	}
	if err := lockQuota(r.Context(), q, r.ProjectID()); err != nil {
		return err
	}
	n, err := q.CountGroupMembers(r.Context(), schema.CountGroupMembersParams{GroupID: &group.ID, UserID: r.UserID()})
	if err == nil && n+int64(p.count) > p.quota.GroupMembers {
		err = fault.Forbidden("Quota exceeded, too many servers in group")
	}
	return err
}
