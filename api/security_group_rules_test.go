package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

const rulesPath = "/os-security-group-rules"

// addRule asks for a rule of a group, with what else the request says of it.
func (c *cloud) addRule(t *testing.T, g compute.SecurityGroup, more, version string) answer {
	t.Helper()
	return c.do(t, member, "POST", rulesPath, `{"security_group_rule":{"parent_group_id":"`+g.ID.String()+`"`+more+`}}`, at(version))
}

// What a rule says goes to the network service, and it is shown in Nova's form: -1 is any type or code of ICMP.
func TestRulesOfSecurityGroups(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	n.own = &ownGroups{}
	sender := n.own.named("", elsewhere) // without a name
	n.own.shared = []compute.SecurityGroupID{sender.ID}
	named := `,"group_id":"` + sender.ID.String() + `"`
	of := `{"name":"","tenant_id":"` + elsewhere + `"}`
	port := func(n int) *int { return &n }
	for _, asked := range []struct {
		more, shown string
		want        compute.SecurityGroupRule
	}{
		{`,"ip_protocol":"tcp","from_port":22,"to_port":"23"`, `"ip_protocol":"tcp","from_port":22,"to_port":23,"group":{},"ip_range":{"cidr":"0.0.0.0/0"}`,
			compute.SecurityGroupRule{Protocol: "tcp", From: port(22), To: port(23), Prefix: "0.0.0.0/0"}},
		{`,"ip_protocol":"UDP","from_port":1,"to_port":65535,"cidr":"10.2.3.124/24","group_id":null`, `"ip_protocol":"udp","from_port":1,"to_port":65535,"group":{},"ip_range":{"cidr":"10.2.3.124/24"}`,
			compute.SecurityGroupRule{Protocol: "udp", From: port(1), To: port(65535), Prefix: "10.2.3.124/24"}},
		{`,"ip_protocol":"icmp","from_port":-1,"to_port":"-1","cidr":"2001:db8::%2F32"`, `"ip_protocol":"icmp","from_port":-1,"to_port":-1,"group":{},"ip_range":{"cidr":"2001:db8::/32"}`,
			compute.SecurityGroupRule{Protocol: "icmp", Prefix: "2001:db8::/32"}},
		{`,"ip_protocol":"icmp","from_port":8,"to_port":-1,"cidr":null`, `"ip_protocol":"icmp","from_port":8,"to_port":null,"group":{},"ip_range":{"cidr":"0.0.0.0/0"}`,
			compute.SecurityGroupRule{Protocol: "icmp", From: port(8), Prefix: "0.0.0.0/0"}},
		{`,"ip_protocol":"icmp","from_port":0,"to_port":0,"cidr":"0.0.0.0/0"`, `"ip_protocol":"icmp","from_port":0,"to_port":0,"group":{},"ip_range":{"cidr":"0.0.0.0/0"}`,
			compute.SecurityGroupRule{Protocol: "icmp", From: port(0), To: port(0), Prefix: "0.0.0.0/0"}},
		{named, `"ip_protocol":null,"from_port":null,"to_port":null,"group":` + of + `,"ip_range":{}`,
			compute.SecurityGroupRule{Project: elsewhere, GroupID: &sender.ID}},
		{named + `,"ip_protocol":"tcp"`, `"ip_protocol":"tcp","from_port":1,"to_port":65535,"group":` + of + `,"ip_range":{}`,
			compute.SecurityGroupRule{Protocol: "tcp", From: port(1), To: port(65535), Project: elsewhere, GroupID: &sender.ID}},
		{named + `,"ip_protocol":"icmp"`, `"ip_protocol":"icmp","from_port":-1,"to_port":-1,"group":` + of + `,"ip_range":{}`,
			compute.SecurityGroupRule{Protocol: "icmp", Project: elsewhere, GroupID: &sender.ID}},
		{named + `,"ip_protocol":"tcp","from_port":"80","to_port":"81","cidr":"10.0.0.0/8","more":7`, `"ip_protocol":"tcp","from_port":80,"to_port":81,"group":` + of + `,"ip_range":{}`,
			compute.SecurityGroupRule{Protocol: "tcp", From: port(80), To: port(81), Project: elsewhere, GroupID: &sender.ID}},
	} {
		for _, version := range []string{"2.1", "2.20", "2.35"} {
			g := n.own.named("web", project)
			made := c.addRule(t, g, asked.more, version).ok(200)
			id := made.get("security_group_rule", "id").(string)
			shown := `{"id":"` + id + `","parent_group_id":"` + g.ID.String() + `",` + asked.shown + `}`
			made.is(200, `{"security_group_rule":`+shown+`}`)
			require.Equal(t, asked.want, n.own.made)
			all, err := json.Marshal(c.rulesOf(t, g))
			require.NoError(t, err)
			require.JSONEq(t, `[`+shown+`]`, string(all))
			c.do(t, member, "DELETE", rulesPath+"/"+id, "", at(version)).is(202, "")
			c.do(t, member, "DELETE", rulesPath+"/"+id, "", at(version)).fails(404, "itemNotFound", "Security group rule "+id+" not found.")
			require.Empty(t, c.rulesOf(t, g))
		}
	}
	c.do(t, member, "DELETE", rulesPath+"/7", "").fails(400, "badRequest", "Security group id should be uuid")
}

// What no rule can be is refused with Nova's texts, and the network service is not asked.
func TestRulesThatCannotBe(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	n.own = &ownGroups{}
	g := n.own.named("web", project)
	self := `,"group_id":"` + g.ID.String() + `"`
	const few = "Not enough parameters to build a valid rule."
	for more, why := range map[string]string{
		``:                                   few,
		`,"ip_protocol":"tcp"`:               few,
		`,"ip_protocol":"tcp","from_port":1`: few,
		`,"ip_protocol":"","from_port":1,"to_port":1`:                               few,
		self + `,"ip_protocol":"gre"`:                                               few, // Nova opens the group for everything
		self + `,"from_port":1,"to_port":2`:                                         few,
		self + `,"ip_protocol":"tcp","to_port":2`:                                   few,
		`,"ip_protocol":"gre","from_port":1,"to_port":2`:                            "Invalid IP protocol gre.",
		`,"ip_protocol":"999-x","from_port":22,"to_port":22`:                        "Invalid IP protocol 999-x.",
		`,"ip_protocol":"tcp","from_port":22,"to_port":21`:                          "Invalid port range 22:21. Former value cannot be greater than the later",
		`,"ip_protocol":"tcp","from_port":65536,"to_port":22`:                       "Invalid port range 65536:22. Former value cannot be greater than the later",
		`,"ip_protocol":"tcp","from_port":0,"to_port":22`:                           "Invalid port range 0:22. Valid TCP ports should be between 1-65535",
		`,"ip_protocol":"tcp","from_port":-1,"to_port":-1`:                          "Invalid port range -1:-1. Valid TCP ports should be between 1-65535",
		`,"ip_protocol":"udp","from_port":22,"to_port":"65536"`:                     "Invalid port range 22:65536. Valid UDP ports should be between 1-65535",
		`,"ip_protocol":"icmp","from_port":256,"to_port":0`:                         "Invalid port range 256:0. For ICMP, the type:code must be valid",
		`,"ip_protocol":"icmp","from_port":0,"to_port":-2`:                          "Invalid port range 0:-2. For ICMP, the type:code must be valid",
		`,"ip_protocol":"udp","from_port":"a","to_port":22`:                         "Invalid input received: To and From ports must be integers",
		`,"ip_protocol":"icmp","from_port":8,"to_port":""`:                          "Invalid input received: Type and Code must be integers for ICMP protocol type",
		`,"ip_protocol":"tcp","from_port":22,"to_port":99999999999999999999`:        "Invalid input received: To and From ports must be integers",
		`,"ip_protocol":"tcp","from_port":22,"to_port":22,"cidr":"10.0.0.0"`:        "10.0.0.0 is not a valid IP network.",
		`,"ip_protocol":"tcp","from_port":22,"to_port":22,"cidr":"10.0.0.0/33"`:     "10.0.0.0/33 is not a valid IP network.",
		`,"ip_protocol":"tcp","from_port":22,"to_port":22,"cidr":"%zz"`:             "%zz is not a valid IP network.",
		`,"ip_protocol":"tcp","from_port":22,"to_port":22,"cidr":"10.0.0.0/0"`:      "Bad prefix for network in cidr 10.0.0.0/0",
		`,"ip_protocol":"tcp","from_port":22,"to_port":22,"cidr":"2001:db8::1%2f0"`: "Bad prefix for network in cidr 2001:db8::1/0",
	} {
		for _, version := range []string{"2.1", "2.35"} {
			c.addRule(t, g, more, version).fails(400, "badRequest", why)
		}
	}
	for _, more := range []string{
		`,"group_id":"web"`, `,"group_id":7`, `,"cidr":7`, `,"ip_protocol":6`, `,"from_port":1.5`, `,"from_port":[1]`, `,"parent_group_id":"web"`, `,"parent_group_id":null`,
	} {
		c.addRule(t, g, more, "2.1").ok(400)
	}
	c.do(t, member, "POST", rulesPath, `{"security_group_rule":{"ip_protocol":"tcp","from_port":22,"to_port":22}}`).ok(400)
	none := compute.SecurityGroup{ID: compute.SecurityGroupID{UUID: uuid.New()}}
	c.addRule(t, none, `,"ip_protocol":"tcp","from_port":22,"to_port":22`, "2.1").fails(404, "itemNotFound", "Security group "+none.ID.String()+" not found.")
	theirs := n.own.named("theirs", elsewhere)
	for _, unseen := range []compute.SecurityGroup{none, theirs} {
		c.addRule(t, g, `,"group_id":"`+unseen.ID.String()+`"`, "2.1").fails(404, "itemNotFound", "Security group "+unseen.ID.String()+" not found.")
	}
	require.Zero(t, n.own.made)
}

// A rule that the group shows already is refused. Of one that names a group the network service knows: two groups may have one name.
func TestARuleThatIsThere(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	n.own = &ownGroups{}
	g := n.own.named("web", project)
	all := &n.own.groups[0]
	exists := "This rule already exists in group " + g.ID.String()
	c.addRule(t, g, `,"ip_protocol":"tcp","from_port":22,"to_port":22`, "2.1").ok(200)
	for _, again := range []string{`"tcp","from_port":"22","to_port":22`, `"TCP","from_port":22,"to_port":22,"cidr":"0.0.0.0/0"`} {
		c.addRule(t, g, `,"ip_protocol":`+again, "2.35").fails(400, "badRequest", exists)
	}
	for _, other := range []string{`"tcp","from_port":22,"to_port":23`, `"udp","from_port":22,"to_port":22`, `"tcp","from_port":22,"to_port":22,"cidr":"10.0.0.0/8"`} {
		c.addRule(t, g, `,"ip_protocol":`+other, "2.1").ok(200)
	}
	all.Rules = []compute.SecurityGroupRule{{ID: uuid.NewString(), Protocol: "tcp"}, {ID: uuid.NewString(), Protocol: "icmp"}} // all ports
	c.addRule(t, g, `,"ip_protocol":"tcp","from_port":1,"to_port":65535`, "2.1").fails(400, "badRequest", exists)
	c.addRule(t, g, `,"ip_protocol":"icmp","from_port":-1,"to_port":-1`, "2.1").fails(400, "badRequest", exists)
	self := `,"group_id":"` + g.ID.String() + `"`
	c.addRule(t, g, self, "2.1").ok(200)
	c.addRule(t, g, self, "2.1").ok(200)
	c.addRule(t, g, self+`,"ip_protocol":"tcp"`, "2.1").ok(200)
}

// S1: a key in other letters, which encoding/json would take for the one of the schema, is one of those that may be there and mean nothing.
func TestS1KeysInOtherLettersMeanNothing(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	n.own = &ownGroups{}
	long := strings.Repeat("x", 5000)
	for name, body := range map[string]string{
		"capitals":                      `{"security_group":{"name":"n","description":"d","NAME":"` + long + `","Description":7}}`,
		"a letter that folds":           `{"security_group":{"name":"n","description":"d","deſcription":"` + long + `"}}`,
		"the object, in capitals":       `{"security_group":{"name":"n","description":"d"},"SECURITY_GROUP":{"name":"` + long + `"}}`,
		"the object, of such a letter":  `{"security_group":{"name":"n","description":"d"},"ſecurity_group":{"name":"` + long + `"}}`,
		"an object that is none at all": `{"security_group":{"name":"n","description":"d"},"Security_Group":[]}`,
	} {
		made := c.do(t, member, "POST", "/os-security-groups", body, at("2.35")).ok(200)
		require.Equal(t, []any{"n", "d"}, []any{made.get("security_group", "name"), made.get("security_group", "description")}, name)
		id := made.get("security_group", "id").(string)
		made = c.do(t, member, "PUT", "/os-security-groups/"+id, body, at("2.35")).ok(200)
		require.Equal(t, []any{"n", "d"}, []any{made.get("security_group", "name"), made.get("security_group", "description")}, name)
	}
	g := n.own.named("web", project)
	for _, more := range []string{
		`"IP_PROTOCOL":"udp"`, `"CIDR":"192.0.2.0/24"`, `"From_Port":1`, `"Group_ID":"` + uuid.NewString() + `"`, `"PARENT_GROUP_ID":7`,
	} {
		n.own.made = compute.SecurityGroupRule{}
		made := c.addRule(t, g, `,"ip_protocol":"tcp","from_port":80,"to_port":81,`+more, "2.35").ok(200)
		require.Equal(t, `tcp 80 81`, fmt.Sprint(made.get("security_group_rule", "ip_protocol"), " ", made.get("security_group_rule", "from_port"), " ",
			made.get("security_group_rule", "to_port")), more)
		require.Equal(t, "0.0.0.0/0", made.get("security_group_rule", "ip_range", "cidr"), more)
		c.do(t, member, "DELETE", fmt.Sprint(rulesPath, "/", made.get("security_group_rule", "id")), "", at("2.35")).ok(202)
	}
	c.addRule(t, g, `,"IP_PROTOCOL":"tcp","FROM_PORT":80,"TO_PORT":81`, "2.35").ok(400)
}
