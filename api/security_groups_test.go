package api_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// To 2.35 groups are made, shown, changed and removed in the network service, in Nova's form.
func TestSecurityGroupsOfTheNetworkService(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	n.own = &ownGroups{}
	const path = "/os-security-groups"
	for _, version := range []string{"2.1", "2.20", "2.35"} {
		do := func(method, path, body string) answer { return c.do(t, member, method, path, body, at(version)) }
		made := do("POST", path, `{"security_group":{"name":" web ","description":"of the shop"}}`).ok(200)
		id := made.get("security_group", "id").(string)
		shown := `{"id":"` + id + `","name":" web ","description":"of the shop","tenant_id":"` + project + `","rules":[]}`
		made.is(200, `{"security_group":`+shown+`}`)
		do("GET", path+"/"+id, "").is(200, `{"security_group":`+shown+`}`)
		do("GET", path, "").is(200, `{"security_groups":[`+shown+`]}`)
		shown = strings.NewReplacer(" web ", "mail", "of the shop", "").Replace(shown)
		do("PUT", path+"/"+id, `{"security_group":{"name":"mail","description":""}}`).is(200, `{"security_group":`+shown+`}`)
		do("GET", path+"/"+id, "").is(200, `{"security_group":`+shown+`}`)
		do("DELETE", path+"/"+id, "").is(202, "")
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			do(method, path+"/"+id, groupRoutes(id)[method+" "+path+"/"+id]).fails(404, "itemNotFound", "Security group "+id+" not found.")
			do(method, path+"/web", groupRoutes("web")[method+" "+path+"/web"]).fails(400, "badRequest", "Security group id should be uuid")
		}
	}
	for route, body := range groupRoutes(uuid.NewString()) {
		method, path, _ := strings.Cut(route, " ")
		c.do(t, member, method, path, body, at("2.36")).fails(404, "itemNotFound", "API version 2.36 is not supported on this method.")
		if method != "GET" {
			c.do(t, reader, method, path, body, at("2.35")).ok(403)
		}
		c.do(t, powerless, method, path, body, at("2.35")).ok(403)
	}
}

// Another project's group is not there: neither shown nor changed, nor are its rules.
func TestSecurityGroupsOfAnotherProject(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	id := uuid.New()
	theirs := compute.SecurityGroup{
		ID: compute.SecurityGroupID{UUID: id}, Name: "theirs", ProjectID: elsewhere, Rules: []compute.SecurityGroupRule{{ID: id.String(), Protocol: "tcp"}},
	}
	n.own = &ownGroups{groups: []compute.SecurityGroup{asItIs(theirs)}}
	for route, body := range groupRoutes(id.String()) {
		method, path, _ := strings.Cut(route, " ")
		if !strings.Contains(path+body, id.String()) {
			continue
		}
		for _, as := range []who{member, admin} {
			got := c.do(t, as, method, path, body, at("2.35")).ok(404)
			require.NotContains(t, got.body, "theirs", route)
		}
	}
	require.Equal(t, []compute.SecurityGroup{theirs}, n.own.groups)
	require.Empty(t, c.do(t, member, "GET", "/os-security-groups", "").ok(200).get("security_groups"))
}

func TestWhatASecurityGroupMayBeCalled(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	n.own = &ownGroups{}
	id := n.own.named("web", project).ID.String()
	long := strings.Repeat("ä", 256)
	for body, code := range map[string]int{
		`{"name":"","description":""}`:                                          200, // Neutron's names may be empty
		`{"name":"` + long[:255*len("ä")] + `","description":"","color":"red"}`: 200,
		`{"name":"` + long + `","description":""}`:                              400,
		`{"name":"web","description":"` + long + `"}`:                           400,
		`{"name":"web"}`:                   400,
		`{"description":"web"}`:            400,
		`{"name":7,"description":""}`:      400,
		`{"name":"w","description":null}`:  400,
		`null`:                             400,
		`[{"name":"w","description":"d"}]`: 400,
	} {
		body = `{"security_group":` + body + `}`
		c.do(t, member, "POST", "/os-security-groups", body).ok(code)
		c.do(t, member, "PUT", "/os-security-groups/"+id, body).ok(code)
	}
	c.do(t, member, "POST", "/os-security-groups", "").ok(400)
	c.do(t, member, "POST", "/os-security-groups", `{}`).ok(400)
}

func TestWhichSecurityGroupsAreListed(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	n.own = &ownGroups{}
	for _, name := range []string{"c", "a", "b"} {
		n.own.named(name, project)
	}
	n.own.named("aa", elsewhere)
	for _, asked := range []struct {
		as          who
		query, want string
		of          string
	}{
		{member, "", "a b c", project},
		{admin, "", "a b c", project},
		{member, "?all_tenants=1", "a b c", project},
		{admin, "?all_tenants=1", "a b c aa", ""},
		{admin, "?all_tenants=0&limit=2", "a b", ""}, // its value does not matter, as in Nova
		{member, "?limit=1&offset=1", "b", project},
		{member, "?limit=0", "a b c", project},
		{member, "?limit=5000&name=b", "a b c", project},
		{member, "?offset=3", "", project},
		{member, "?offset=99999999999999999999", "", project},
	} {
		for _, version := range []string{"2.1", "2.35"} {
			names := []string{}
			for _, g := range c.do(t, asked.as, "GET", "/os-security-groups"+asked.query, "", at(version)).ok(200).get("security_groups").([]any) {
				names = append(names, g.(map[string]any)["name"].(string))
			}
			require.Equal(t, asked.want, strings.Join(names, " "), asked.query)
			require.Equal(t, asked.of, *n.own.of, asked.query)
		}
	}
	for _, query := range []string{"limit=-1", "limit=x", "offset=-1", "offset="} {
		c.do(t, member, "GET", "/os-security-groups?"+query, "").ok(400)
	}
}

// What the network service refuses, and that it does not answer, is said in the API's form.
func TestSecurityGroupsThatTheServiceRefuses(t *testing.T) {
	t.Parallel()
	c, n := setupNetwork(t)
	n.own = &ownGroups{}
	web := n.own.named("web", project)
	for _, refused := range []struct {
		err  *compute.Error
		code int
		name string
	}{
		{compute.Errorf(compute.Unavailable, "list security groups: the service answered 500 internal server error"), 503, "serviceUnavailable"},
		{compute.Errorf(compute.Forbidden, "Quota exceeded, too many security groups or rules of them."), 403, "forbidden"},
		{compute.Errorf(compute.Invalid, "Security Group %s in use.", web.ID), 400, "badRequest"},
		{compute.Errorf(compute.Invalid, "Insufficient rights for removing default security group."), 400, "badRequest"},
	} {
		for _, version := range []string{"2.1", "2.35"} {
			for route, body := range groupRoutes(web.ID.String()) {
				// Of the group the routes change nothing that stays.
				n.own.groups = []compute.SecurityGroup{{ID: web.ID, Name: "web", ProjectID: project, Rules: []compute.SecurityGroupRule{{ID: web.ID.String()}}}}
				n.own.refuse = refused.err
				method, path, _ := strings.Cut(route, " ")
				got := c.do(t, member, method, path, body, at(version)).fails(refused.code, refused.name, refused.err.Error())
				require.Equal(t, refused.code == 503, got.header.Get("Retry-After") != "", route)
			}
		}
	}
	n.own.refuse, n.own.ofRule = nil, compute.Errorf(compute.Forbidden, "Security group rule already exists.")
	c.do(t, member, "POST", "/os-security-group-rules", groupRoutes(web.ID.String())["POST /os-security-group-rules"]).fails(403, "forbidden", n.own.ofRule.Error())
}

// Where users make no groups it is said what does; where there is no network service there is nothing to stand in for.
func TestSecurityGroupsWhereThereAreNone(t *testing.T) {
	t.Parallel()
	local, n := setupNetwork(t)
	n.visible = []compute.NamedNetwork{{ID: compute.NetworkID{UUID: uuid.MustParse(networkID)}, Name: "lan"}}
	none := setupCloud(t)
	for _, version := range []string{"2.1", "2.35"} {
		routes := groupRoutes(uuid.NewString())
		for route, body := range routes {
			method, path, _ := strings.Cut(route, " ")
			local.do(t, member, method, path, body, at(version)).fails(501, "notImplemented",
				"Security groups are not made here: each project has one, default, which lets everything pass. Use Neutron (networks.backend: neutron).")
		}
		for _, path := range []string{"/os-networks", "/os-tenant-networks", "/os-networks/" + networkID, "/os-tenant-networks/" + networkID} {
			local.do(t, member, "GET", path, "", at(version)).ok(200)
			routes["GET "+path] = ""
		}
		for route, body := range routes {
			method, path, _ := strings.Cut(route, " ")
			none.do(t, member, method, path, body, at(version)).fails(404, "itemNotFound", "There is no network service here that this API could stand in for.")
		}
	}
}
