package api_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
	"strongroom/schema"
)

// network is a network service with one network. It notes what it is asked.
type network struct {
	heard

	mu     sync.Mutex
	asked  []compute.NetworkRequest
	refuse error
	short  int // of how many servers it has no ports
	now    func([]compute.Network) ([]compute.Network, error)

	groups  []compute.SecurityGroup
	askedOf string   // the project whose server's groups were asked for last
	named   int      // how often it was asked for names of groups
	changed []string // security groups that were added and removed

	visible []compute.NamedNetwork
	own     *ownGroups // nil: its users make none
}

const networkID = "5c1e0f5e-0c64-4b3c-8f1d-2b64a3a0d002"

func (n *network) Plan(_ context.Context, cred compute.Credential, in compute.NetworkRequest) ([]compute.Network, int, error) {
	n.enter(cred)()
	n.mu.Lock()
	n.asked = append(n.asked, in)
	n.mu.Unlock()
	if n.refuse != nil {
		return nil, 0, n.refuse
	}
	servers := max(in.Most-n.short, in.Least)
	if in.Automatic || in.Required {
		return []compute.Network{{UUID: networkID, Port: &compute.Port{Label: "lan"}}}, servers, nil
	}
	var out []compute.Network
	for _, asked := range in.Networks {
		made := compute.Network{UUID: networkID, Tag: asked.Tag, Port: &compute.Port{Label: "lan", FixedIP: asked.FixedIP, GroupNames: in.Groups}}
		if asked.Port != "" {
			made.Port.ID, made.Port.Brought = &compute.PortID{UUID: uuid.MustParse(asked.Port)}, true
		}
		out = append(out, made)
	}
	return out, servers, nil
}

func (n *network) Renew(_ context.Context, _ string, _ compute.ServerID, known []compute.Network) ([]compute.Network, error) {
	return n.now(known)
}

func (n *network) GroupNames(_ context.Context, cred compute.Credential, ids []compute.SecurityGroupID) (map[compute.SecurityGroupID]string, error) {
	n.enter(cred)()
	n.named++
	if n.refuse != nil {
		return nil, n.refuse
	}
	names := map[compute.SecurityGroupID]string{}
	for _, g := range n.groups {
		if slices.Contains(ids, g.ID) {
			names[g.ID] = g.Name
		}
	}
	return names, nil
}

func (n *network) ServerGroups(_ context.Context, cred compute.Credential, project string, _ compute.ServerID) ([]compute.SecurityGroup, error) {
	n.enter(cred)()
	n.askedOf = project
	return n.groups, n.refuse
}

func (n *network) AddGroup(_ context.Context, cred compute.Credential, _ compute.ServerID, name string) error {
	n.enter(cred)()
	n.changed = append(n.changed, "+"+name)
	return n.refuse
}

func (n *network) RemoveGroup(_ context.Context, cred compute.Credential, _ compute.ServerID, name string) error {
	n.enter(cred)()
	n.changed = append(n.changed, "-"+name)
	return n.refuse
}

// setupNetwork is a cloud with a network service.
func setupNetwork(t *testing.T) (*cloud, *network) {
	t.Helper()
	n := &network{now: func([]compute.Network) ([]compute.Network, error) { return nil, nil }}
	return setupCloud(t, func(config *api.Config) { config.Networks = n }), n
}

// plugged is a server that has a port.
func (c *cloud) plugged() (id string, port compute.PortID) {
	id, port = c.active(), compute.PortID{UUID: uuid.New()}
	networks := []compute.Network{{UUID: networkID, MAC: "fa:16:3e:00:00:01", Tag: "front", Port: &compute.Port{
		ID: &port, Label: "lan", Status: "DOWN", Type: compute.VIFOpenVSwitch, Bridge: "br-int",
		Addresses: []compute.PortAddress{{Subnet: compute.SubnetID{UUID: uuid.UUID{1}}, IP: "10.1.0.7"}, {Subnet: compute.SubnetID{UUID: uuid.UUID{2}}, IP: "fd00::7"}},
	}}}
	c.exec(`UPDATE servers SET networks = $2 WHERE id = $1`, id, networks)
	return id, port
}

// Networks in every form of Nova, at the versions that have them.
func TestWhatACreateAsksOfNetworks(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	port := uuid.NewString()
	on := func(networks ...map[string]any) map[string]any {
		return map[string]any{"networks": append([]map[string]any{}, networks...)}
	}
	for _, ask := range []struct {
		version string
		body    map[string]any
		want    compute.NetworkRequest
	}{
		{"2.90", on(map[string]any{"uuid": networkID, "fixed_ip": "10.1.0.9", "tag": "front"}), compute.NetworkRequest{
			Networks: []compute.RequestedNetwork{{UUID: networkID, FixedIP: "10.1.0.9", Tag: "front"}}, Least: 1, Most: 1}},
		{"2.90", on(map[string]any{"port": port}), compute.NetworkRequest{Networks: []compute.RequestedNetwork{{Port: port}}, Least: 1, Most: 1}},
		{"2.90", map[string]any{"networks": "auto"}, compute.NetworkRequest{Required: true, Least: 1, Most: 1}},
		{"2.1", map[string]any{"networks": nil}, compute.NetworkRequest{Automatic: true, Least: 1, Most: 1}},
		{"2.1", on(), compute.NetworkRequest{Automatic: true, Least: 1, Most: 1}},
		{"2.90", map[string]any{"networks": []any{map[string]any{"uuid": networkID}}, "security_groups": []any{map[string]any{"name": "web"}, map[string]any{"name": "web"}}},
			compute.NetworkRequest{Networks: []compute.RequestedNetwork{{UUID: networkID}}, Groups: []string{"web"}, Least: 1, Most: 1}},
	} {
		n.asked = nil
		c.do(t, member, "POST", "/servers", c.body(ask.body), at(ask.version)).ok(202)
		ask.want.Hostname = "one"
		require.Equal(t, []compute.NetworkRequest{ask.want}, n.asked)
	}
	n.asked = nil
	c.do(t, admin, "POST", "/servers", c.body(on(map[string]any{"uuid": networkID})), at("2.90")).ok(202)
	require.True(t, n.asked[0].External, "network:attach_external_network")
	// Of several servers no more are made than there are ports for.
	n.asked, n.short = nil, 2
	before := c.count(`SELECT count(*) FROM servers`)
	c.do(t, member, "POST", "/servers", c.body(map[string]any{"min_count": 2, "max_count": 5, "networks": "auto"}), at("2.90")).ok(202)
	require.Equal(t, []compute.NetworkRequest{{Required: true, Least: 2, Most: 5}}, n.asked)
	require.Equal(t, before+3, c.count(`SELECT count(*) FROM servers`))
	n.asked, n.short = nil, 0
	c.create(map[string]any{"networks": "none"})
	c.do(t, member, "POST", "/servers", c.body(on()), at("2.90")).ok(202)
	require.Empty(t, n.asked, "nothing is asked for")
	c.create(map[string]any{"networks": "none", "security_groups": []any{map[string]any{"name": "web"}}})
	require.Equal(t, []compute.NetworkRequest{{Groups: []string{"web"}, Hostname: "one", Least: 1, Most: 1}}, n.asked, "K18: the group has to be there")
	require.Equal(t, 1, c.count(`SELECT count(*) FROM server_ports WHERE port_id = $1`, port))
	c.do(t, member, "POST", "/servers", c.body(on(map[string]any{"port": port}))+" ", at("2.90")).
		fails(409, "conflictingRequest", "Port "+port+" is still in use.")
}

// What cannot be is refused with Nova's codes before anything is made.
func TestWhatACreateMayNotAskOfNetworks(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	refused := func(code int, name, message string, more map[string]any) {
		t.Helper()
		c.do(t, member, "POST", "/servers", c.body(more), at("2.90")).fails(code, name, message)
	}
	port := map[string]any{"port": uuid.NewString()}
	refused(400, "badRequest", "Failed to launch instances: max_count cannot be greater than 1 if an fixed_ip is specified.",
		map[string]any{"max_count": 2, "networks": []any{map[string]any{"uuid": networkID, "fixed_ip": "10.1.0.9"}}})
	refused(400, "badRequest", "Failed to launch instances: Unable to launch multiple instances with a single configured port ID. "+
		"Please launch your instance one by one with different ports.", map[string]any{"max_count": 2, "networks": []any{port}})
	refused(400, "badRequest", "The tag 'a' is given to two networks.", map[string]any{"networks": []any{
		map[string]any{"uuid": networkID, "tag": "a"}, map[string]any{"uuid": networkID, "tag": "a"}}})
	for _, said := range []struct {
		err  error
		code int
		name string
	}{
		{compute.Errorf(compute.NotFound, "Network x could not be found."), 400, "badRequest"},
		{compute.Errorf(compute.Invalid, "Network x requires a subnet in order to boot instances on."), 400, "badRequest"},
		{compute.Errorf(compute.Conflict, "Multiple possible networks found, use a Network ID to be more specific."), 409, "conflictingRequest"},
		{compute.Errorf(compute.Forbidden, "It is not allowed to create an interface on external network x"), 403, "forbidden"},
	} {
		n.refuse = said.err
		refused(said.code, said.name, said.err.Error(), map[string]any{"networks": []any{map[string]any{"uuid": networkID}}})
	}
	n.refuse = compute.Errorf(compute.NotFound, "Security group web not found.") // K18: where no port is made, too
	refused(400, "badRequest", n.refuse.Error(), map[string]any{"networks": "none", "security_groups": []any{map[string]any{"name": "web"}}})
	require.Zero(t, c.count(`SELECT count(*) FROM servers`))
}

// Addresses and interfaces are what the network service said last; it is asked for the interfaces.
func TestWhatIsShownOfPorts(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	id, port := c.plugged()
	get := func(path string) answer { return c.do(t, member, "GET", "/servers/"+id+path, "", at("2.90")) }
	get("/ips").is(200, `{"addresses":{"lan":[{"addr":"10.1.0.7","version":4},{"addr":"fd00::7","version":6}]}}`)
	get("/ips/lan").is(200, `{"lan":[{"addr":"10.1.0.7","version":4},{"addr":"fd00::7","version":6}]}`)
	get("/ips/wan").fails(404, "itemNotFound", "Instance is not a member of specified network")
	shown := get("").ok(200).get("server", "addresses").(map[string]any)["lan"].([]any)[0].(map[string]any)
	require.Equal(t, "fixed", shown["OS-EXT-IPS:type"])
	require.Equal(t, "fa:16:3e:00:00:01", shown["OS-EXT-IPS-MAC:mac_addr"])
	var networks []compute.Network
	require.NoError(t, c.pool.QueryRow(t.Context(), `SELECT networks FROM servers WHERE id = $1`, id).Scan(&networks))
	networks[0].Port.Addresses[0].Floating = []string{"203.0.113.7"}
	c.exec(`UPDATE servers SET networks = $2 WHERE id = $1`, id, networks)
	get("/ips").is(200, `{"addresses":{"lan":[{"addr":"10.1.0.7","version":4},{"addr":"fd00::7","version":6},{"addr":"203.0.113.7","version":4}]}}`)
	shown = get("").ok(200).get("server", "addresses").(map[string]any)["lan"].([]any)[2].(map[string]any)
	require.Equal(t, map[string]any{"addr": "203.0.113.7", "version": float64(4), "OS-EXT-IPS:type": "floating", "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:00:00:01"}, shown)

	n.now = func(known []compute.Network) ([]compute.Network, error) {
		now := slices.Clone(known)
		active := *known[0].Port
		active.Status = "ACTIVE"
		now[0].Port = &active
		return now, nil
	}
	ips := `[{"ip_address":"10.1.0.7","subnet_id":"01000000-0000-0000-0000-000000000000"},{"ip_address":"fd00::7","subnet_id":"02000000-0000-0000-0000-000000000000"}]`
	one := fmt.Sprintf(`{"port_id":%q,"net_id":%q,"mac_addr":"fa:16:3e:00:00:01","port_state":"ACTIVE","fixed_ips":%s,"tag":"front"}`, port, networkID, ips)
	get("/os-interface").is(200, `{"interfaceAttachments":[`+one+`]}`)
	get("/os-interface/"+port.String()).is(200, `{"interfaceAttachment":`+one+`}`)
	c.do(t, member, "GET", "/servers/"+id+"/os-interface/"+port.String(), "", at("2.69")).is(200, `{"interfaceAttachment":`+strings.Replace(one, `,"tag":"front"`, "", 1)+`}`)
	other := uuid.NewString()
	get("/os-interface/"+other).fails(404, "itemNotFound", "Instance "+id+" does not have a port with id "+other)
	n.now = func([]compute.Network) ([]compute.Network, error) {
		return nil, compute.Errorf(compute.Unavailable, "away")
	}
	require.Equal(t, "DOWN", get("/os-interface/"+port.String()).ok(200).get("interfaceAttachment", "port_state"), "as it was seen last")
}

// K32: the answers of an update and of a rebuild show no more of addresses than themselves, until they are a show's.
func TestK32AddressesInTheAnswersOfChanges(t *testing.T) {
	t.Parallel()
	c, _ := setupNetwork(t)
	id, _ := c.plugged()
	few := map[string]any{"lan": []any{map[string]any{"addr": "10.1.0.7", "version": 4.0}, map[string]any{"addr": "fd00::7", "version": 6.0}}}
	for _, version := range []string{"2.1", "2.57", "2.74", "2.75", "2.97"} {
		c.settle(id, compute.VMActive, compute.TaskNone)
		want := c.do(t, member, "GET", "/servers/"+id, "", at(version)).ok(200).get("server", "addresses")
		require.NotEqual(t, want, few, "a show says more")
		if version < "2.75" {
			want = few
		}
		put := c.do(t, member, "PUT", "/servers/"+id, `{"server":{"name":"lodge"}}`, at(version)).ok(200)
		require.Equal(t, want, put.get("server", "addresses"), version)
		rebuilt := c.rebuild(t, member, id, c.image, "", version).ok(202)
		require.Equal(t, want, rebuilt.get("server", "addresses"), version)
	}
}

// A server with ports moves as any other does.
func TestAServerWithPortsIsMoved(t *testing.T) {
	t.Parallel()
	c, _ := setupNetwork(t)
	c.addFlavor("43", nil)
	for _, body := range []string{
		`{"migrate":null}`, `{"os-migrateLive":{"host":null,"block_migration":"auto"}}`, `{"resize":{"flavorRef":"43"}}`, `{"shelve":null}`, `{"reboot":{"type":"HARD"}}`,
	} {
		id, _ := c.plugged()
		c.do(t, admin, "POST", "/servers/"+id+"/action", body, at("2.90")).ok(202)
	}
}

// Events are a level: each says that the ports are to be looked at, however often and late it comes.
func TestEventsOfTheNetworkService(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	id, port := c.plugged()
	building := c.create(nil)
	c.exec(`UPDATE servers SET host_id = $2 WHERE id = $1`, building, c.host)
	homeless := c.create(nil)
	gone := uuid.NewString()
	send := func(by who, events string) answer {
		return c.do(t, by, "POST", "/os-server-external-events", `{"events":[`+events+`]}`)
	}
	plugged := func(server string) string {
		return fmt.Sprintf(`{"name":"network-vif-plugged","server_uuid":%q,"status":"completed","tag":%q}`, server, port)
	}
	answered := func(server, status string, code int) string {
		return fmt.Sprintf(`{"name":"network-vif-plugged","server_uuid":%q,"status":%q,"tag":%q,"code":%d}`, server, status, port, code)
	}
	send(member, plugged(building)).ok(403)
	send(admin, plugged(building)+","+plugged(building)).is(200, `{"events":[`+answered(building, "completed", 200)+`,`+answered(building, "completed", 200)+`]}`)
	require.Equal(t, []compute.ServerID{{UUID: uuid.MustParse(building)}}, c.starter.plugged, "told once")
	send(admin, plugged(id)).is(200, `{"events":[`+answered(id, "completed", 200)+`]}`)
	require.Len(t, c.starter.plugged, 1, "nothing waits for one that is up")
	send(admin, plugged(gone)).fails(404, "itemNotFound", "No instances found for any event")
	send(admin, plugged(id)+","+plugged(gone)+","+plugged(homeless)).is(207, `{"events":[`+answered(id, "completed", 200)+`,`+
		answered(gone, "failed", 404)+`,`+answered(homeless, "failed", 422)+`]}`)
	send(admin, `{"name":"volume-extended","server_uuid":"`+id+`"}`).ok(400)

	n.now = func(known []compute.Network) ([]compute.Network, error) {
		now := slices.Clone(known)
		moved := *known[0].Port
		moved.Addresses = []compute.PortAddress{{IP: "10.1.0.8"}}
		now[0].Port = &moved
		return now, nil
	}
	changed := `{"name":"network-changed","server_uuid":"` + id + `"}`
	c.exec(`UPDATE servers SET current_operation = 'req-x' WHERE id = $1`, id)
	send(admin, changed).ok(200)
	ip := func() string {
		row, err := schema.New(c.pool).GetServer(t.Context(), compute.ServerID{UUID: uuid.MustParse(id)})
		require.NoError(t, err)
		return row.Networks[0].Port.Addresses[0].IP
	}
	require.Equal(t, "10.1.0.7", ip(), "an operation that is under way says what the ports are")
	changes := func() int { return c.count(`SELECT network_changes FROM servers WHERE id = $1`, id) }
	require.Equal(t, 1, changes(), "it is not forgotten")
	c.exec(`UPDATE servers SET current_operation = '' WHERE id = $1`, id)
	send(admin, changed).ok(200)
	require.Equal(t, "10.1.0.8", ip())
	require.Zero(t, changes())

	n.now = func(known []compute.Network) ([]compute.Network, error) {
		now, moved := slices.Clone(known), *known[0].Port
		moved.Addresses = []compute.PortAddress{{IP: "10.1.0.6"}}
		now[0].Port = &moved
		return now, nil
	}
	c.exec(`UPDATE servers SET host_id = NULL WHERE id = $1`, id)
	send(admin, changed+","+plugged(building)).is(207, `{"events":[{"name":"network-changed","server_uuid":"`+id+`","status":"failed","code":422},`+
		answered(building, "completed", 200)+`]}`)
	require.Equal(t, "10.1.0.6", ip(), "the ports of a shelved server are shown as they are")
	c.exec(`UPDATE servers SET host_id = $2 WHERE id = $1`, id, c.host)

	looked := 0
	n.now = func(known []compute.Network) ([]compute.Network, error) {
		looked++
		if looked == 1 { // another event is told at once, and written down first
			c.exec(`UPDATE servers SET networks = jsonb_set(networks, '{0,port,status}', '"BUILD"') WHERE id = $1`, id)
		}
		now, moved := slices.Clone(known), *known[0].Port
		moved.Addresses = []compute.PortAddress{{IP: "10.1.0.9"}}
		now[0].Port = &moved
		return now, nil
	}
	send(admin, changed).ok(200)
	require.Equal(t, "10.1.0.9", ip())
	require.Equal(t, 2, looked)
	n.now = func([]compute.Network) ([]compute.Network, error) {
		return nil, compute.Errorf(compute.Unavailable, "busy")
	}
	told := len(c.starter.plugged)
	send(admin, `{"name":"network-vif-deleted","server_uuid":"`+id+`"},`+plugged(building)).ok(503)
	require.Len(t, c.starter.plugged, told+1, "one that cannot be looked at holds up no other")
	require.Equal(t, 1, changes(), "it is looked at later")
}
