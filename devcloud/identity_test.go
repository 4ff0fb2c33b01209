package devcloud_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	"github.com/sapcc/go-bits/gopherpolicy"
	"github.com/stretchr/testify/require"
)

func identityOf(t *testing.T, provider *gophercloud.ProviderClient) *gophercloud.ServiceClient {
	t.Helper()
	client, err := openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{})
	require.NoError(t, err)
	return client
}

func roleNames(t *testing.T, result tokens.GetResult) []string {
	t.Helper()
	roles, err := result.ExtractRoles()
	require.NoError(t, err)
	var names []string
	for _, r := range roles {
		names = append(names, r.Name)
	}
	return names
}

func TestLoginAndValidate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	service := identityOf(t, b.login(t, "strongroom", "service"))
	for _, tc := range []struct {
		user, project string
		roles         []string
	}{
		{"admin", "admin", []string{"admin", "member", "reader"}},
		{"admin", "demo", []string{"admin", "member", "reader"}},
		{"demo", "demo", []string{"member", "reader", "creator"}},
		{"reader", "demo", []string{"reader"}},
		{"alt", "alt", []string{"member", "reader", "creator"}},
		{"strongroom", "service", []string{"service"}},
	} {
		provider := b.login(t, tc.user, tc.project)
		got := tokens.Get(t.Context(), service, provider.TokenID)
		user, err := got.ExtractUser()
		require.NoError(t, err)
		require.Equal(t, tc.user, user.Name)
		require.Equal(t, tokens.Domain{ID: "default", Name: "Default"}, user.Domain)
		project, err := got.ExtractProject()
		require.NoError(t, err)
		require.Equal(t, tc.project, project.Name)
		require.Equal(t, tc.roles, roleNames(t, got))
		token, err := got.ExtractToken()
		require.NoError(t, err)
		require.Equal(t, provider.TokenID, token.ID)
		require.WithinDuration(t, time.Now().Add(8*time.Hour), token.ExpiresAt, time.Minute)
		catalog, err := got.ExtractServiceCatalog()
		require.NoError(t, err)
		urls := map[string]string{}
		for _, entry := range catalog.Entries {
			require.Len(t, entry.Endpoints, 3)
			urls[entry.Type+" "+entry.Name] = entry.Endpoints[0].URL
			require.Equal(t, "RegionOne", entry.Endpoints[0].RegionID)
		}
		require.Equal(t, map[string]string{
			"identity devcloud": b.AuthURL(), "image devcloud": b.ImageURL(), "compute strongroom": "http://127.0.0.1:8774/v2.1",
			"volumev3 strongroom": "http://127.0.0.1:8774/v3/" + project.ID,
		}, urls)
	}
}

func TestLoginsThatFail(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, tc := range []struct{ user, password, project string }{
		{"demo", "wrong", "demo"},
		{"demo", strings.Repeat("x", 100), "demo"},
		{"nobody", b.passwords["demo"], "demo"},
		{"demo", b.passwords["demo"], "alt"},
		{"demo", b.passwords["demo"], "no such project"},
	} {
		_, err := b.tryLogin(t, tc.user, tc.password, tc.project)
		require.Truef(t, gophercloud.ResponseCodeIs(err, http.StatusUnauthorized), "%s in %s: %v", tc.user, tc.project, err)
	}
	password := func(user, scope string) string {
		return fmt.Sprintf(`{"auth":{"identity":{"methods":["password"],"password":{"user":%s}},"scope":%s}}`, user, scope)
	}
	right := fmt.Sprintf(`{"name":"demo","domain":{"id":"default"},"password":%q}`, b.passwords["demo"])
	for name, body := range map[string]string{
		"another domain":  password(strings.Replace(right, "default", "other", 1), "null"),
		"no domain":       password(fmt.Sprintf(`{"name":"demo","password":%q}`, b.passwords["demo"]), "null"),
		"system scope":    password(right, `{"system":{"all":true}}`),
		"domain scope":    password(right, `{"domain":{"id":"default"}}`),
		"no method":       `{"auth":{"identity":{"methods":[]}}}`,
		"a made-up one":   `{"auth":{"identity":{"methods":["oauth1"]}}}`,
		"password unsaid": `{"auth":{"identity":{"methods":["password"]}}}`,
		"a false token":   `{"auth":{"identity":{"methods":["token"],"token":{"id":"x.y"}}}}`,
	} {
		got := b.send(t, "POST", b.AuthURL()+"/auth/tokens", body)
		require.Equal(t, http.StatusUnauthorized, got.status, name)
		require.Empty(t, got.header.Get("X-Subject-Token"), name)
	}
	require.Equal(t, http.StatusCreated, b.send(t, "POST", b.AuthURL()+"/auth/tokens", password(right, `"unscoped"`)).status)
	require.Equal(t, http.StatusCreated, b.send(t, "POST", b.AuthURL()+"/auth/tokens", password(right, `{"unscoped":{}}`)).status)
}

func TestRescopingKeepsTheEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	unscoped := b.login(t, "admin", "")
	client := identityOf(t, unscoped)
	first := tokens.Get(t.Context(), client, unscoped.TokenID)
	before, err := first.ExtractToken()
	require.NoError(t, err)
	require.Empty(t, roleNames(t, first))
	project, err := first.ExtractProject()
	require.NoError(t, err)
	require.Nil(t, project)

	b.clock.pass(time.Hour)
	made := tokens.Create(t.Context(), client, &tokens.AuthOptions{
		TokenID: unscoped.TokenID, Scope: tokens.Scope{ProjectName: "demo", DomainName: "Default"},
	})
	after, err := made.ExtractToken()
	require.NoError(t, err)
	require.True(t, before.ExpiresAt.Equal(after.ExpiresAt))
	project, err = made.ExtractProject()
	require.NoError(t, err)
	require.Equal(t, "demo", project.Name)

	_, err = tokens.Create(t.Context(), client, &tokens.AuthOptions{
		TokenID: unscoped.TokenID, Scope: tokens.Scope{ProjectName: "alt", DomainName: "Default"},
	}).ExtractToken()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusUnauthorized), "%v", err)
}

func TestWhoMayValidate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	demo, alt := b.login(t, "demo", "demo"), b.login(t, "alt", "alt")
	for name, tc := range map[string]struct {
		asker *gophercloud.ProviderClient
		code  int
	}{
		"oneself":    {demo, 200},
		"a service":  {b.login(t, "strongroom", "service"), 200},
		"an admin":   {b.login(t, "admin", "demo"), 200},
		"a stranger": {alt, 403},
		"a reader":   {b.login(t, "reader", "demo"), 403},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			got := b.send(t, method, b.AuthURL()+"/auth/tokens", "", "X-Auth-Token", tc.asker.TokenID, "X-Subject-Token", demo.TokenID)
			require.Equal(t, tc.code, got.status, name)
			require.Equal(t, method == "HEAD", len(got.body) == 0)
		}
	}
	got := b.send(t, "GET", b.AuthURL()+"/auth/tokens", "", "X-Auth-Token", demo.TokenID, "X-Subject-Token", "not.one")
	require.Equal(t, http.StatusNotFound, got.status)
	got = b.send(t, "GET", b.AuthURL()+"/auth/tokens?nocatalog", "", "X-Auth-Token", demo.TokenID, "X-Subject-Token", demo.TokenID)
	require.NotContains(t, got.json(t)["token"], "catalog")
}

func TestTokensCannotBeForged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token := b.login(t, "demo", "demo").TokenID
	try := func(token string) int {
		return b.send(t, "GET", b.AuthURL()+"/auth/projects", "", "X-Auth-Token", token).status
	}
	require.Equal(t, 200, try(token))
	for n := 0; n < len(token); n += 7 {
		forged := []byte(token)
		if forged[n] == '.' {
			continue
		}
		forged[n] = map[bool]byte{true: 'B', false: 'A'}[forged[n] == 'A']
		require.Equal(t, 401, try(string(forged)), "character %d", n)
	}
	body, _, _ := strings.Cut(token, ".")
	for _, forged := range []string{body, body + ".", "." + body, token + "A", ""} {
		require.Equal(t, 401, try(forged))
	}
}

func TestTokensEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token := b.login(t, "demo", "demo").TokenID
	b.clock.pass(9 * time.Hour)
	service := b.login(t, "strongroom", "service").TokenID
	admin := b.login(t, "admin", "admin").TokenID
	validate := func(asker, query string) int {
		return b.send(t, "GET", b.AuthURL()+"/auth/tokens"+query, "", "X-Auth-Token", asker, "X-Subject-Token", token).status
	}
	require.Equal(t, 401, b.send(t, "GET", b.AuthURL()+"/auth/projects", "", "X-Auth-Token", token).status)
	require.Equal(t, 404, validate(service, ""))
	require.Equal(t, 200, validate(service, "?allow_expired=1"), "work that a service still does for its user")
	require.Equal(t, 404, validate(admin, "?allow_expired=1"))
	b.clock.pass(48 * time.Hour)
	service = b.login(t, "strongroom", "service").TokenID
	require.Equal(t, 404, validate(service, "?allow_expired=1"))
}

func TestRevokedTokensStayRevoked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	gone, stays := b.login(t, "demo", "demo"), b.login(t, "demo", "demo")
	require.NoError(t, tokens.Revoke(t.Context(), identityOf(t, gone), gone.TokenID).Err)
	try := func(token string) int {
		return b.send(t, "GET", b.AuthURL()+"/auth/projects", "", "X-Auth-Token", token).status
	}
	require.Equal(t, 401, try(gone.TokenID))
	require.Equal(t, 200, try(stays.TokenID))
	b.stop()
	b.start(t)
	require.Equal(t, 401, try(gone.TokenID))
	require.Equal(t, 200, try(stays.TokenID), "tokens outlive a restart")

	alt := b.login(t, "alt", "alt")
	got := b.send(t, "DELETE", b.AuthURL()+"/auth/tokens", "", "X-Auth-Token", alt.TokenID, "X-Subject-Token", stays.TokenID)
	require.Equal(t, 403, got.status)
	require.Equal(t, 200, try(stays.TokenID))
}

// The way in which strongroom's api checks tokens.
func TestGopherpolicyAcceptsTheTokens(t *testing.T) {
	t.Parallel()
	b := setup(t)
	validator := gopherpolicy.TokenValidator{IdentityV3: identityOf(t, b.login(t, "strongroom", "service"))}
	check := func(token string) *gopherpolicy.Token {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		require.NoError(t, err)
		req.Header.Set("X-Auth-Token", token)
		return validator.CheckToken(req)
	}
	token := check(b.login(t, "demo", "demo").TokenID)
	require.NoError(t, token.Err)
	require.Equal(t, "demo", token.UserName())
	require.Equal(t, "demo", token.ProjectScopeName())
	require.Len(t, token.ProjectScopeUUID(), 32)
	require.Contains(t, token.Context.Roles, "member")
	require.Error(t, check("no.token").Err)
}

func TestDirectory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin, demo := identityOf(t, b.login(t, "admin", "admin")), identityOf(t, b.login(t, "demo", "demo"))

	pages, err := projects.List(admin, projects.ListOpts{}).AllPages(t.Context())
	require.NoError(t, err)
	all, err := projects.ExtractProjects(pages)
	require.NoError(t, err)
	require.Len(t, all, 4)
	pages, err = projects.List(admin, projects.ListOpts{Name: "alt"}).AllPages(t.Context())
	require.NoError(t, err)
	alt, err := projects.ExtractProjects(pages)
	require.NoError(t, err)
	require.Len(t, alt, 1)
	pages, err = projects.ListAvailable(demo).AllPages(t.Context())
	require.NoError(t, err)
	own, err := projects.ExtractProjects(pages)
	require.NoError(t, err)
	require.Len(t, own, 1)
	require.Equal(t, "demo", own[0].Name)

	_, err = projects.Get(t.Context(), demo, own[0].ID).Extract()
	require.NoError(t, err)
	_, err = projects.Get(t.Context(), demo, alt[0].ID).Extract()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusForbidden))
	_, err = projects.Get(t.Context(), admin, "unknown").Extract()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound))

	pages, err = users.List(admin, users.ListOpts{Name: "demo"}).AllPages(t.Context())
	require.NoError(t, err)
	found, err := users.ExtractUsers(pages)
	require.NoError(t, err)
	require.Len(t, found, 1)
	user, err := users.Get(t.Context(), demo, found[0].ID).Extract()
	require.NoError(t, err)
	require.Equal(t, "default", user.DomainID)
	_, err = users.List(demo, users.ListOpts{}).AllPages(t.Context())
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusForbidden))

	pages, err = roles.List(admin, roles.ListOpts{Name: "creator"}).AllPages(t.Context())
	require.NoError(t, err)
	creator, err := roles.ExtractRoles(pages)
	require.NoError(t, err)
	require.Len(t, creator, 1)
	pages, err = roles.ListAssignments(admin, roles.ListAssignmentsOpts{RoleID: creator[0].ID}).AllPages(t.Context())
	require.NoError(t, err)
	assignments, err := roles.ExtractRoleAssignments(pages)
	require.NoError(t, err)
	require.Len(t, assignments, 2)
}

func TestTheLogKeepsSecrets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token := b.login(t, "demo", "demo").TokenID
	b.send(t, "GET", b.AuthURL()+"/auth/tokens", "", "X-Auth-Token", token, "X-Subject-Token", token)
	b.send(t, "GET", b.AuthURL()+"/projects?x="+token, "", "X-Auth-Token", token)
	body, err := json.Marshal(map[string]any{"auth": b.passwords["demo"]})
	require.NoError(t, err)
	b.send(t, "POST", b.AuthURL()+"/auth/tokens", string(body))
	log := b.log.String()
	require.Contains(t, log, "path=/identity/v3/auth/tokens")
	_, signature, _ := strings.Cut(token, ".")
	for _, secret := range []string{token, signature, b.passwords["demo"]} {
		require.NotContains(t, log, secret)
	}
}
