package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
)

// gets gives a server a port, as an operation does.
func (c *cloud) gets(id string, port compute.PortID) {
	one := compute.Network{UUID: networkID, MAC: "fa:16:3e:00:00:02", Tag: "back", Port: &compute.Port{ID: &port, Label: "lan", Status: "DOWN"}}
	c.exec(`UPDATE servers SET networks = networks || $2::jsonb WHERE id = $1`, id, []compute.Network{one})
}

// given has attachments give the server a port.
func (c *cloud) given(id string) (port compute.PortID) {
	port = compute.PortID{UUID: uuid.New()}
	c.starter.ended = func(context.Context, compute.Operation) (*compute.Error, error) {
		c.gets(id, port)
		c.settle(id, compute.VMActive, compute.TaskNone)
		return nil, nil
	}
	return port
}

func (c *cloud) interfacePost(t *testing.T, id, body, version string) answer {
	t.Helper()
	return c.do(t, member, "POST", "/servers/"+id+"/os-interface", `{"interfaceAttachment": `+body+`}`, at(version))
}

func TestAttachAnInterface(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	id, _ := c.plugged()
	port := c.given(id)
	got := c.interfacePost(t, id, fmt.Sprintf(`{"net_id": %q, "fixed_ips": [{"ip_address": "10.1.0.9"}], "tag": "back"}`, networkID), "2.70")
	got.is(200, fmt.Sprintf(`{"interfaceAttachment":{"port_id":%q,"net_id":%q,"mac_addr":"fa:16:3e:00:00:02","port_state":"DOWN","fixed_ips":[],"tag":"back"}}`, port, networkID))
	require.Equal(t, []compute.RequestedNetwork{{UUID: networkID, FixedIP: "10.1.0.9", Tag: "back"}}, n.asked[len(n.asked)-1].Networks)
	op := c.starter.ops()[len(c.starter.ops())-1]
	require.Equal(t, compute.OpInterfaceAttach, op.Kind)
	var arguments compute.InterfaceAttachArguments
	require.NoError(t, json.Unmarshal(op.Arguments, &arguments))
	require.Equal(t, "back", arguments.Network.Tag)
	require.Equal(t, "nova", arguments.Zone)

	// The one network that there is; a port of the user's.
	port = c.given(id)
	require.Equal(t, port.String(), c.interfacePost(t, id, `{}`, "2.1").ok(200).get("interfaceAttachment", "port_id"))
	require.True(t, n.asked[len(n.asked)-1].Automatic)
	port = c.given(id)
	require.Equal(t, port.String(), c.interfacePost(t, id, fmt.Sprintf(`{"port_id": %q}`, port), "2.1").ok(200).get("interfaceAttachment", "port_id"))
	require.Equal(t, port.String(), n.asked[len(n.asked)-1].Networks[0].Port)

	// It is detached.
	c.do(t, member, "DELETE", "/servers/"+id+"/os-interface/"+port.String(), "").ok(202)
	op = c.starter.ops()[len(c.starter.ops())-1]
	require.Equal(t, compute.OpInterfaceDetach, op.Kind)
	require.JSONEq(t, fmt.Sprintf(`{"port_id":%q}`, port), string(op.Arguments))
	ops := len(c.starter.ops())
	c.do(t, member, "DELETE", "/servers/"+id+"/os-interface/"+port.String(), "").ok(202) // as Nova's, until it is gone
	require.Len(t, c.starter.ops(), ops)
	c.do(t, reader, "DELETE", "/servers/"+id+"/os-interface/"+port.String(), "").ok(403)
}

// T1: what comes while an interface is attached or detached waits for its turn, as many as there are; what could not begin anyway is refused at once.
func TestT1InterfacesAreAttachedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	c, _ := setupNetwork(t)
	id, first := c.plugged()
	under := atomic.Int32{}
	c.starter.ended = func(_ context.Context, op compute.Operation) (*compute.Error, error) {
		var in compute.InterfaceAttachArguments
		if err := json.Unmarshal(op.Arguments, &in); err != nil || under.Add(1) != 1 {
			return nil, fmt.Errorf("%d at once: %w", under.Load(), err)
		}
		time.Sleep(50 * time.Millisecond)
		c.gets(id, *in.Network.Port.ID)
		under.Add(-1)
		c.settle(id, compute.VMActive, compute.TaskNone)
		return nil, nil
	}
	const many = 8 // more than a request tries to win a server that others change
	ports, answers := map[string]bool{}, make(chan answer, many)
	for range many {
		port := uuid.NewString()
		ports[port] = true
		go func() { answers <- c.interfacePost(t, id, fmt.Sprintf(`{"port_id": %q}`, port), "2.1") }()
	}
	for range many {
		got := <-answers
		delete(ports, got.ok(200).get("interfaceAttachment", "port_id").(string))
	}
	require.Empty(t, ports, "each was told of its own")

	// Two requests for one detachment, which come while something else is attached.
	c.settle(id, compute.VMActive, compute.TaskAttachingInterface)
	for range 2 {
		go func() { answers <- c.do(t, member, "DELETE", "/servers/"+id+"/os-interface/"+first.String(), "") }()
	}
	time.Sleep(200 * time.Millisecond)
	c.settle(id, compute.VMActive, compute.TaskNone)
	for range 2 {
		got := <-answers
		got.is(202, "")
	}
	c.settle(id, compute.VMActive, compute.TaskNone)

	// A detach, and what comes behind it.
	c.do(t, member, "DELETE", "/servers/"+id+"/os-interface/"+first.String(), "").ok(202)
	c.act(t, member, id, `{"os-start":null}`).fails(409, "conflictingRequest", "Cannot 'start' instance "+id+" while it is in vm_state active")
	answer := waiting(t, func() answer { return c.act(t, member, id, `{"os-stop":null}`) })
	c.settle(id, compute.VMActive, compute.TaskNone)
	answer().is(202, "")
}

// T1: it waits no longer than a client does; a delete does not wait.
func TestT1ARequestWaitsNoLongerThanItsPatience(t *testing.T) {
	t.Parallel()
	n := &network{now: func([]compute.Network) ([]compute.Network, error) { return nil, nil }}
	c := setupCloud(t, func(config *api.Config) { config.Networks, config.Patience = n, time.Second })
	id, _ := c.plugged()
	c.settle(id, compute.VMActive, compute.TaskAttachingInterface)
	began := time.Now()
	c.act(t, member, id, `{"os-stop":null}`).fails(409, "conflictingRequest", "Cannot 'stop' instance "+id+" while it is in task_state attaching_interface")
	require.GreaterOrEqual(t, time.Since(began), time.Second)
	// A lock is told at once.
	c.act(t, admin, id, `{"lock": null}`).is(202, "")
	began = time.Now()
	c.act(t, member, id, `{"os-stop":null}`).fails(409, "conflictingRequest", "Instance "+id+" is locked")
	require.Less(t, time.Since(began), time.Second)
	c.act(t, admin, id, `{"unlock": null}`).is(202, "")

	// No more than some wait: the others are told at once.
	const many = 40
	answers, first := make(chan answer, many), make(chan answer, 1)
	for range many {
		go func() { answers <- c.act(t, member, id, `{"os-stop":null}`) }()
	}
	go func() { first <- <-answers }()
	select {
	case got := <-first:
		require.Equal(t, 409, got.code)
	case <-time.After(900 * time.Millisecond):
		t.Fatal("all of them wait")
	}
	for range many - 1 {
		require.Equal(t, 409, (<-answers).code)
	}
	c.do(t, member, "DELETE", "/servers/"+id, "").ok(204)
}

// Nova's codes and texts: what can be known is refused before an operation begins.
func TestAttachmentsThatAreRefused(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	id, port := c.plugged()
	began := len(c.starter.ops())
	other := uuid.NewString()
	for _, tc := range []struct {
		body, version string
		code          int
		name, message string
	}{
		{fmt.Sprintf(`{"net_id": %q, "port_id": %q}`, networkID, other), "2.1", 400, "badRequest", "Must not input both network_id and port_id"},
		{`{"fixed_ips": [{"ip_address": "10.1.0.9"}]}`, "2.1", 400, "badRequest", "Must input network_id when request IP address"},
		{fmt.Sprintf(`{"port_id": %q}`, port), "2.1", 409, "conflictingRequest", "Port " + port.String() + " is still in use."},
		{fmt.Sprintf(`{"net_id": %q, "tag": "front"}`, networkID), "2.49", 400, "badRequest", "The tag 'front' is given to two networks."},
	} {
		c.interfacePost(t, id, tc.body, tc.version).fails(tc.code, tc.name, tc.message)
	}
	for _, bad := range []string{
		`{"net_id": "x"}`, `{"port_id": 7}`, `{"fixed_ips": []}`, `{"net_id": "` + networkID + `", "fixed_ips": [{"ip_address": "x"}]}`,
		`{"net_id": "` + networkID + `", "tag": "back"}`, `{"other": 1}`, `7`,
	} {
		require.Equal(t, 400, c.interfacePost(t, id, bad, "2.48").code, bad)
	}
	for _, said := range []struct {
		body string
		err  *compute.Error
		code int
		name string
	}{
		{`{"net_id": "` + networkID + `"}`, compute.Errorf(compute.NotFound, "Network x could not be found."), 404, "itemNotFound"},
		{`{"port_id": "` + other + `"}`, compute.Errorf(compute.NotFound, "Port id x could not be found."), 404, "itemNotFound"},
		{`{"port_id": "` + other + `"}`, compute.Errorf(compute.Conflict, "Port x is still in use."), 409, "conflictingRequest"},
		{`{"net_id": "` + networkID + `"}`, compute.Errorf(compute.Forbidden, "Maximum number of ports exceeded"), 403, "forbidden"},
		{`{}`, compute.Errorf(compute.Conflict, "Multiple possible networks found, use a Network ID to be more specific."), 400, "badRequest"},
	} {
		n.refuse = said.err
		c.interfacePost(t, id, said.body, "2.1").fails(said.code, said.name, said.err.Error())
	}
	n.refuse = nil
	c.do(t, member, "DELETE", "/servers/"+id+"/os-interface/"+other, "").fails(404, "itemNotFound", "Port id "+other+" could not be found.")
	c.do(t, member, "DELETE", "/servers/"+id+"/os-interface/x", "").fails(404, "itemNotFound", "Port id x could not be found.")
	full := make([]compute.Network, compute.MaxInterfaces)
	c.exec(`UPDATE servers SET networks = $2 WHERE id = $1`, id, full)
	c.interfacePost(t, id, `{"net_id": "`+networkID+`"}`, "2.1").fails(400, "badRequest", "A server has at most 16 networks.")
	require.Len(t, c.starter.ops(), began)
}

// Why an attachment fails is the request's failure.
func TestAnAttachmentThatFails(t *testing.T) {
	t.Parallel()
	c, _ := setupNetwork(t)
	id, _ := c.plugged()
	for _, said := range []struct {
		err  *compute.Error
		code int
		name string
	}{
		{compute.Errorf(compute.Conflict, "Fixed IP 10.1.0.9 is already in use."), 409, "conflictingRequest"},
		{compute.Errorf(compute.Invalid, "No fixed IP addresses available for network: x"), 400, "badRequest"},
		{compute.Errorf(compute.Forbidden, "Maximum number of ports exceeded"), 403, "forbidden"},
	} {
		c.starter.ended = func(context.Context, compute.Operation) (*compute.Error, error) {
			c.settle(id, compute.VMActive, compute.TaskNone)
			return said.err, nil
		}
		c.interfacePost(t, id, `{"net_id": "`+networkID+`"}`, "2.1").fails(said.code, said.name, said.err.Error())
	}
	c.starter.ended = func(context.Context, compute.Operation) (*compute.Error, error) {
		return nil, compute.Errorf(compute.Unavailable, "it takes long")
	}
	require.Equal(t, 503, c.interfacePost(t, id, `{"net_id": "`+networkID+`"}`, "2.1").code)
}

func TestSecurityGroupsOfAServer(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	id, port := c.plugged()
	web, from, to := compute.SecurityGroupID{UUID: uuid.New()}, 80, 81
	n.groups = []compute.SecurityGroup{{ID: web, Name: "web", Description: "of the shop", ProjectID: "p", Ports: []compute.PortID{port}, Rules: []compute.SecurityGroupRule{
		{ID: "r1", Protocol: "tcp", From: &from, To: &to}, {ID: "r2", Group: "web", Project: "p"}, {ID: "r3", Protocol: "icmp", Prefix: "10.0.0.0/8"},
	}}}
	secured := []compute.SecurityGroupID{web}
	n.now = func(known []compute.Network) ([]compute.Network, error) {
		now, has := slices.Clone(known), *known[0].Port
		has.Secured = secured
		now[0].Port = &has
		return now, nil
	}
	shows := func(who who, names ...string) {
		t.Helper()
		want := []any{}
		for _, name := range names {
			want = append(want, map[string]any{"name": name})
		}
		require.Equal(t, want, c.do(t, who, "GET", "/servers/"+id, "").ok(200).get("server", "security_groups"))
		listed := c.do(t, who, "GET", "/servers/detail?uuid="+id, "").ok(200).get("servers").([]any)
		require.Equal(t, want, listed[0].(map[string]any)["security_groups"])
	}
	shows(member, "default") // nobody looked at the port yet
	c.act(t, member, id, `{"addSecurityGroup": {"name": "web"}}`, at("2.1")).ok(202)
	require.Equal(t, []string{"+web"}, n.changed)
	require.Zero(t, n.named)
	shows(member, "web")
	require.Equal(t, 1, n.named, "it is asked for names once a minute")
	n.requireBy(t, project, "user-member", "names and groups")
	n.groups[0].Name = "shop"
	shows(member, "web")
	shows(admin, "shop")
	n.requireBy(t, project, "user-admin", "names")
	require.Equal(t, 2, n.named, "what administrators see is not for other users")
	c.advance(2 * time.Minute)
	shows(member, "shop")
	// What was told last holds while there is no answer, and a service that does not answer is left alone for a while.
	c.advance(2 * time.Minute)
	n.refuse = compute.Errorf(compute.Forbidden, "not with this credential")
	shows(member, "shop")
	require.Equal(t, 5, n.named, "a show and a list: another credential may be told")
	n.refuse = compute.Errorf(compute.Unavailable, "the network service does not answer")
	shows(member, "shop")
	shows(reader, "shop")
	require.Equal(t, 6, n.named)
	n.refuse, n.groups[0].Name = nil, "web"
	c.advance(time.Minute)
	shows(member, "web")
	// A group that nobody names is called by its id.
	other := compute.SecurityGroupID{UUID: uuid.New()}
	secured = []compute.SecurityGroupID{other, web}
	c.act(t, member, id, `{"addSecurityGroup": {"name": "web"}}`, at("2.1")).ok(202)
	shows(member, slices.Sorted(slices.Values([]string{other.String(), "web"}))...)
	secured = secured[1:]
	c.act(t, member, id, `{"addSecurityGroup": {"name": "web"}}`, at("2.1")).ok(202)
	n.changed = n.changed[:1]
	c.do(t, member, "GET", "/servers/"+id+"/os-security-groups", "").is(200, fmt.Sprintf(`{"security_groups":[{"id":%q,"name":"web","description":"of the shop","tenant_id":"p","rules":[
		{"id":"r1","parent_group_id":%[1]q,"ip_protocol":"tcp","from_port":80,"to_port":81,"group":{},"ip_range":{"cidr":"0.0.0.0/0"}},
		{"id":"r2","parent_group_id":%[1]q,"ip_protocol":null,"from_port":null,"to_port":null,"group":{"name":"web","tenant_id":"p"},"ip_range":{}},
		{"id":"r3","parent_group_id":%[1]q,"ip_protocol":"icmp","from_port":-1,"to_port":-1,"group":{},"ip_range":{"cidr":"10.0.0.0/8"}}]}]}`, web))
	n.askedOf = ""
	c.do(t, admin, "GET", "/servers/"+id+"/os-security-groups", "").ok(200)
	require.Equal(t, project, n.askedOf, "an administrator's token is of another project")
	n.groups, secured = nil, []compute.SecurityGroupID{}
	c.act(t, member, id, `{"removeSecurityGroup": {"name": "web"}}`, at("2.1")).ok(202)
	require.Equal(t, []string{"+web", "-web"}, n.changed)
	shows(member)

	n.refuse = compute.Errorf(compute.NotFound, "Security group web is not found for project p")
	c.act(t, member, id, `{"addSecurityGroup": {"name": "web"}}`, at("2.1")).fails(404, "itemNotFound", n.refuse.Error())
	n.refuse = compute.Errorf(compute.Conflict, "Multiple security groups found matching 'web'. Use an ID to be more specific.")
	c.act(t, member, id, `{"removeSecurityGroup": {"name": "web"}}`, at("2.1")).fails(409, "conflictingRequest", n.refuse.Error())
	require.Equal(t, 400, c.act(t, member, id, `{"addSecurityGroup": {}}`, at("2.1")).code)
	require.Equal(t, 400, c.act(t, member, id, `{"addSecurityGroup": null}`, at("2.1")).code)
}
