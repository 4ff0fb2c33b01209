package api

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const (
	ruleAttachInterface = "os_compute_api:os-attach-interfaces:create"
	ruleDetachInterface = "os_compute_api:os-attach-interfaces:delete"
)

// interfaceWait is how long a request waits for the end of its attachment: Nova's answers with the
// port.
const (
	interfaceWait = 50 * time.Second
	leastWait     = 8 * time.Second
)

var attachInterfaceBody = validation.Since(func(v microversion.Version) validation.Schema {
	p := validation.Properties{
		"net_id": validation.UUID, "port_id": validation.UUID,
		"fixed_ips": {"type": "array", "minItems": 1, "maxItems": 1, "items": validation.Object([]string{"ip_address"}, validation.Properties{"ip_address": fixedIP})},
	}
	if v >= 49 {
		p["tag"] = tagName
	}
	return validation.Object(nil, validation.Properties{"interfaceAttachment": validation.Object(nil, p)})
}, 1, 49)

// attachInterface gives a server a port more, and answers when it has it.
func (a *API) attachInterface(r *Request) (any, error) {
	asked, err := readAttachment(r)
	if err != nil {
		return nil, err
	}
	var had []compute.Network
	arguments := &compute.InterfaceAttachArguments{}
	op, err := a.launch(r, action{
		Facts: compute.InterfaceAttach.Facts, rule: ruleAttachInterface, arguments: arguments,
		check: func(row serverRow) (err error) {
			had = row.Server.Networks
			arguments.Zone = row.Server.AvailabilityZone
			arguments.Network, err = a.planInterface(r, row.Server, asked)
			return err
		},
		also: func(q *schema.Queries) error {
			if !arguments.Network.PortExists() {
				return nil
			}
			// What the server had of the port before goes first: its removal would unbind it.
			server, _ := uuid.Parse(r.Param("id")) // it was found
			waits, err := q.PortWaits(r.Context(), compute.PortUse(*arguments.Network.Port.ID, compute.ServerID{UUID: server}))
			if err == nil && waits {
				err = fault.Conflict("Port %s is still being detached from this server. Try again later.", arguments.Network.Port.ID)
			}
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	if err := a.awaitInterface(r, op); err != nil {
		return nil, err
	}
	row, err := a.findServer(r, ruleAttachInterface)
	if err != nil {
		return nil, err
	}
	has := func(n compute.Network, all []compute.Network) bool {
		return slices.ContainsFunc(all, func(o compute.Network) bool { return o.PortExists() && *o.Port.ID == *n.Port.ID })
	}
	for _, n := range a.interfaces(r, row) {
		if n.PortExists() && !has(n, had) && (!arguments.Network.PortExists() || *n.Port.ID == *arguments.Network.Port.ID) {
			return map[string]any{"interfaceAttachment": viewInterface(r, n)}, nil
		}
	}
	return nil, fault.Conflict("The interface was attached to instance %s and is detached again.", row.Server.ID)
}

func readAttachment(r *Request) (compute.NetworkRequest, error) {
	var body struct {
		Attachment struct {
			Network  string `json:"net_id"`
			Port     string `json:"port_id"`
			FixedIPs []struct {
				Address string `json:"ip_address"`
			} `json:"fixed_ips"`
			Tag string `json:"tag"`
		} `json:"interfaceAttachment"`
	}
	if err := r.Decode(&body); err != nil {
		return compute.NetworkRequest{}, err
	}
	in := body.Attachment
	one := compute.RequestedNetwork{UUID: in.Network, Port: in.Port, Tag: in.Tag}
	if len(in.FixedIPs) > 0 {
		one.FixedIP = in.FixedIPs[0].Address
	}
	switch {
	case one.UUID != "" && one.Port != "":
		return compute.NetworkRequest{}, fault.BadRequest("Must not input both network_id and port_id")
	case one.FixedIP != "" && one.UUID == "":
		return compute.NetworkRequest{}, fault.BadRequest("Must input network_id when request IP address")
	case one.UUID == "" && one.Port == "":
		return compute.NetworkRequest{Automatic: true, Networks: []compute.RequestedNetwork{one}}, nil
	}
	return compute.NetworkRequest{Networks: []compute.RequestedNetwork{one}}, nil
}

// planInterface plans an interface with the requester's token: what can be known to fail is refused here.
func (a *API) planInterface(r *Request, s schema.Server, asked compute.NetworkRequest) (compute.Network, error) {
	if a.config.Networks == nil {
		return compute.Network{}, fault.BadRequest("Attaching interfaces is not supported for instance %s.", s.ID)
	}
	if r.ProjectID() != s.ProjectID { // whose port it would be
		return compute.Network{}, fault.Forbidden("An interface is attached with a token of the server's project.")
	}
	asked.Hostname, asked.External = s.Hostname, r.Allowed(ruleExternal)
	planned, _, err := a.config.Networks.Plan(r.Context(), r.Credential(), asked)
	switch {
	case asked.Automatic && compute.Is(err, compute.Conflict): // it is not clear which network is meant
		return compute.Network{}, fault.BadRequest("%s", err)
	case err != nil:
		return compute.Network{}, err
	case len(planned) == 0:
		return compute.Network{}, fault.BadRequest("No specific network was requested and none are available for project '%s'.", s.ProjectID)
	}
	one := planned[0]
	one.Tag = asked.Networks[0].Tag
	if err := compute.CheckNetworkText(append(slices.Clone(s.Networks), one)); err != nil {
		return one, err
	}
	return one, compute.Server{ID: s.ID, Networks: s.Networks}.CheckAttaches(one)
}

// awaitInterface waits for the end of an attachment. Why it failed is the request's failure.
func (a *API) awaitInterface(r *Request, op compute.Operation) error {
	// What it waited for its turn is part of it, but for as long as an attachment takes.
	ctx, cancel := context.WithTimeout(r.Context(), max(time.Until(r.began.Add(a.config.Patience)), leastWait))
	defer cancel()
	failure, err := a.config.Operations.Ended(ctx, op)
	if err != nil && r.Context().Err() == nil {
		failure = a.lostServer(r, op)
	}
	if hasLostServer(failure) {
		if _, gone := a.findServer(r, ruleAttachInterface); gone != nil {
			return gone
		}
	}
	if failure != nil {
		return failure
	}
	if op, unknown := a.db.GetOperation(r.Context(), op.ID); unknown == nil && op.State == compute.OperationSucceeded {
		return nil // the next operation on the server has begun already
	}
	if err != nil {
		a.config.Logger.WarnContext(r.Context(), "an interface is attached later", "operation", op.ID, "server", op.ServerID, "error", err)
		return compute.Errorf(compute.Unavailable, "The interface is still being attached to instance %s: its os-interface lists it in the end.", op.ServerID)
	}
	return nil
}

// detachInterface takes a port from a server, once its guest has given the device up. Asked again meanwhile it has nothing to add (T1).
func (a *API) detachInterface(r *Request) (any, error) {
	id, invalid := uuid.Parse(r.Param("port"))
	port := compute.PortID{UUID: id}
	has := func(row serverRow) error {
		if invalid != nil {
			return fault.NotFound("Port id %s could not be found.", r.Param("port"))
		}
		_, err := compute.Server{ID: row.Server.ID, Networks: row.Server.Networks}.InterfaceOn(port)
		return err
	}
	return a.act(r, action{
		Facts: compute.InterfaceDetach.Facts, rule: ruleDetachInterface, arguments: compute.InterfaceDetachArguments{Port: port},
		check: has, early: has,
		isUnderWay: func(row serverRow) (bool, error) {
			return isDetaching(r, a, row.Server, compute.InterfaceDetach, func(in compute.InterfaceDetachArguments) bool { return in.Port == port })
		},
	})
}

// isDetaching says whether a detachment from the server is under way, and the one that is meant.
func isDetaching[In any](r *Request, a *API, s schema.Server, detach compute.Action[In], meant func(In) bool) (bool, error) {
	if err := checkLock(r, s); err != nil || s.TaskState != detach.Transition.Task {
		return false, err
	}
	op, err := a.db.GetOperation(r.Context(), s.CurrentOperation)
	if err != nil {
		return false, err
	}
	in, err := detach.Read(op.Arguments)
	return err == nil && meant(in), nil
}

// viewGroups are security groups as Nova shows them: what comes in.
func viewGroups(groups []compute.SecurityGroup) []map[string]any {
	slices.SortFunc(groups, compareGroups)
	out := []map[string]any{}
	for _, g := range groups {
		rules := []map[string]any{}
		for _, rule := range g.Rules {
			rules = append(rules, viewRule(g, rule))
		}
		out = append(out, map[string]any{
			"id": g.ID.String(), "name": g.Name, "description": g.Description, "tenant_id": g.ProjectID, "rules": rules,
		})
	}
	return out
}

func compareGroups(a, b compute.SecurityGroup) int {
	return cmp.Or(cmp.Compare(a.ProjectID, b.ProjectID), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID.String(), b.ID.String()))
}

func viewRule(g compute.SecurityGroup, rule compute.SecurityGroupRule) map[string]any {
	from, to := rule.From, rule.To // nil: null
	if from == nil && to == nil && rule.Protocol != "" {
		least, most := -1, -1
		if rule.Protocol == "tcp" || rule.Protocol == "udp" {
			least, most = 1, 65535
		}
		from, to = &least, &most
	}
	group, prefix := map[string]any{}, map[string]any{}
	if rule.Project != "" {
		group = map[string]any{"name": rule.Group, "tenant_id": rule.Project}
	} else {
		prefix["cidr"] = cmp.Or(rule.Prefix, "0.0.0.0/0")
	}
	return map[string]any{
		"id": rule.ID, "parent_group_id": g.ID.String(), "ip_protocol": orNull(rule.Protocol), "from_port": from, "to_port": to,
		"group": group, "ip_range": prefix,
	}
}
