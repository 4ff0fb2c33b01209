package devcloud_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	"github.com/stretchr/testify/require"

	"strongroom/devcloud"
)

// roleID gives the id of a role by its name.
func roleID(t *testing.T, admin *gophercloud.ServiceClient, name string) string {
	t.Helper()
	pages, err := roles.List(admin, roles.ListOpts{Name: name}).AllPages(t.Context())
	require.NoError(t, err)
	found, err := roles.ExtractRoles(pages)
	require.NoError(t, err)
	require.Len(t, found, 1, name)
	return found[0].ID
}

// newUser makes a project and a user, who is a member of it, as Terraform does.
func newUser(t *testing.T, admin *gophercloud.ServiceClient, project, user, password string) (*projects.Project, *users.User) {
	t.Helper()
	no := false
	p, err := projects.Create(t.Context(), admin, projects.CreateOpts{Name: project, Description: "of " + user, DomainID: "default", IsDomain: &no, Tags: []string{"b", "a"}}).Extract()
	require.NoError(t, err)
	u, err := users.Create(t.Context(), admin, users.CreateOpts{
		Name: user, Password: password, DefaultProjectID: p.ID, Description: "somebody", DomainID: "default", Extra: map[string]any{"email": user + "@example.org"},
		Options: map[users.Option]any{users.IgnorePasswordExpiry: false, users.MultiFactorAuthRules: []any{}},
	}).Extract()
	require.NoError(t, err)
	require.NoError(t, roles.Assign(t.Context(), admin, roleID(t, admin, "member"), roles.AssignOpts{UserID: u.ID, ProjectID: p.ID}).ExtractErr())
	return p, u
}

func TestAnAdministratorMakesProjectsAndUsers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin := identityOf(t, b.login(t, "admin", "admin"))
	p, u := newUser(t, admin, "team", "ann", "correct horse")
	require.Equal(t, "of ann", p.Description)
	require.True(t, p.Enabled)
	require.Equal(t, []string{"a", "b"}, p.Tags, "a set")
	require.Equal(t, p.ID, u.DefaultProjectID)
	require.Equal(t, "ann@example.org", u.Extra["email"])
	require.NotContains(t, fmt.Sprint(u), "correct horse")

	ann, err := b.tryLogin(t, "ann", "correct horse", "team")
	require.NoError(t, err)
	_, err = b.tryLogin(t, "ann", "correct horse", "demo")
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusUnauthorized), "%v", err)
	text, err := os.ReadFile(b.cfg.UsersFile)
	require.NoError(t, err)
	require.NotContains(t, string(text), "correct horse")
	info, err := os.Stat(b.cfg.UsersFile)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	// They are there after a restart, with other names the same.
	name, mail := "team two", "ann@example.com"
	_, err = projects.Update(t.Context(), admin, p.ID, projects.UpdateOpts{Name: name}).Extract()
	require.NoError(t, err)
	changed, err := users.Update(t.Context(), admin, u.ID, users.UpdateOpts{Name: "anne", Extra: map[string]any{"email": mail}}).Extract()
	require.NoError(t, err)
	require.Equal(t, mail, changed.Extra["email"])
	require.Equal(t, "somebody", changed.Description, "what was not named stays")
	b.stop()
	b.start(t)
	works := func() int {
		return b.send(t, "GET", b.AuthURL()+"/auth/projects", "", "X-Auth-Token", ann.TokenID).status
	}
	require.Equal(t, 200, works())
	_, err = b.tryLogin(t, "anne", "correct horse", name)
	require.NoError(t, err)

	// What is off or gone lets nobody in.
	off, on := false, true
	_, err = projects.Update(t.Context(), admin, p.ID, projects.UpdateOpts{Enabled: &off}).Extract()
	require.NoError(t, err)
	require.Equal(t, 401, works(), "the project is off")
	_, err = projects.Update(t.Context(), admin, p.ID, projects.UpdateOpts{Enabled: &on}).Extract()
	require.NoError(t, err)
	require.Equal(t, 200, works())
	_, err = users.Update(t.Context(), admin, u.ID, users.UpdateOpts{Enabled: &off}).Extract()
	require.NoError(t, err)
	require.Equal(t, 401, works(), "the user is off")
	_, err = users.Update(t.Context(), admin, u.ID, users.UpdateOpts{Enabled: &on}).Extract()
	require.NoError(t, err)
	require.Equal(t, 401, works(), "and the tokens stay ended")
	ann, err = b.tryLogin(t, "anne", "correct horse", name)
	require.NoError(t, err)
	require.Equal(t, 200, works())
	member := roles.UnassignOpts{UserID: u.ID, ProjectID: p.ID}
	require.NoError(t, roles.Unassign(t.Context(), admin, roleID(t, admin, "member"), member).ExtractErr())
	require.Equal(t, 401, works(), "the role is gone")
	err = roles.Unassign(t.Context(), admin, roleID(t, admin, "member"), member).ExtractErr()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "%v", err)
	require.NoError(t, roles.Assign(t.Context(), admin, roleID(t, admin, "reader"), roles.AssignOpts{UserID: u.ID, ProjectID: p.ID}).ExtractErr())
	require.NoError(t, roles.Assign(t.Context(), admin, roleID(t, admin, "reader"), roles.AssignOpts{UserID: u.ID, ProjectID: p.ID}).ExtractErr(), "twice is once")
	pages, err := roles.ListAssignmentsOnResource(admin, roles.ListAssignmentsOnResourceOpts{UserID: u.ID, ProjectID: p.ID}).AllPages(t.Context())
	require.NoError(t, err)
	has, err := roles.ExtractRoles(pages)
	require.NoError(t, err)
	require.Len(t, has, 1)
	grant := fmt.Sprintf("%s/projects/%s/users/%s/roles/%s", b.AuthURL(), p.ID, u.ID, has[0].ID)
	require.Equal(t, 204, b.send(t, "HEAD", grant, "", "X-Auth-Token", admin.TokenID).status)
	require.NoError(t, projects.Delete(t.Context(), admin, p.ID).ExtractErr())
	require.Equal(t, 404, b.send(t, "HEAD", grant, "", "X-Auth-Token", admin.TokenID).status)
	require.Equal(t, 401, works(), "the project is gone")
	left, err := users.Get(t.Context(), admin, u.ID).Extract()
	require.NoError(t, err)
	require.Empty(t, left.DefaultProjectID)
	require.NoError(t, users.Delete(t.Context(), admin, u.ID).ExtractErr())
	err = users.Delete(t.Context(), admin, u.ID).ExtractErr()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "%v", err)
}

// A password that is changed, by its user or by an administrator, ends the tokens that were given for the old one.
func TestAChangedPasswordEndsTheTokens(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin := identityOf(t, b.login(t, "admin", "admin"))
	_, u := newUser(t, admin, "team", "ann", "first")
	change := func(token, original, password string) int {
		body := fmt.Sprintf(`{"user":{"original_password":%q,"password":%q}}`, original, password)
		return b.send(t, "POST", b.AuthURL()+"/users/"+u.ID+"/password", body, "X-Auth-Token", token).status
	}
	login := func(password string) string {
		provider, err := b.tryLogin(t, "ann", password, "team")
		require.NoError(t, err)
		return provider.TokenID
	}
	works := func(token string) bool {
		return b.send(t, "GET", b.AuthURL()+"/auth/projects", "", "X-Auth-Token", token).status == 200
	}
	token := login("first")
	require.Equal(t, 401, change(token, "wrong", "second"))
	require.Equal(t, 403, change(b.login(t, "demo", "demo").TokenID, "first", "second"))
	require.Equal(t, 403, change(admin.TokenID, "first", "second"), "administrators do it by PATCH")
	require.Equal(t, 400, change(token, "first", ""))
	require.Equal(t, 400, change(token, "first", strings.Repeat("x", 73)))
	require.True(t, works(token))

	require.Equal(t, 204, change(token, "first", "second"))
	require.False(t, works(token))
	_, err := b.tryLogin(t, "ann", "first", "team")
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusUnauthorized), "%v", err)
	token = login("second")
	require.True(t, works(token))

	words := "as before"
	_, err = users.Update(t.Context(), admin, u.ID, users.UpdateOpts{Description: &words}).Extract()
	require.NoError(t, err)
	require.True(t, works(token), "only a password ends tokens")
	_, err = users.Update(t.Context(), admin, u.ID, users.UpdateOpts{Password: "third"}).Extract()
	require.NoError(t, err)
	require.False(t, works(token))
	b.stop()
	b.start(t)
	require.False(t, works(token), "after a restart, too")
	token = login("third")
	require.True(t, works(token))

	// null takes the password away.
	require.Equal(t, 200, b.send(t, "PATCH", b.AuthURL()+"/users/"+u.ID, `{"user":{"password":null,"description":null}}`, "X-Auth-Token", b.login(t, "admin", "admin").TokenID).status)
	require.False(t, works(token))
	_, err = b.tryLogin(t, "ann", "third", "team")
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusUnauthorized), "%v", err)
	seen := b.send(t, "GET", b.AuthURL()+"/users/"+u.ID, "", "X-Auth-Token", b.login(t, "admin", "admin").TokenID).json(t)["user"]
	require.NotContains(t, seen, "description")
	for _, secret := range []string{"first", "second", "third"} {
		require.NotContains(t, b.log.String(), secret)
	}
}

func TestWhoMayChangeTheUsers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin := identityOf(t, b.login(t, "admin", "admin"))
	p, u := newUser(t, admin, "team", "ann", "first")
	before, err := os.ReadFile(b.cfg.UsersFile)
	require.NoError(t, err)
	grant := "/projects/" + p.ID + "/users/" + u.ID + "/roles"
	for _, who := range []string{"demo", "reader"} {
		token := b.login(t, who, "demo").TokenID
		for _, request := range []string{
			"POST /projects", "PATCH /projects/" + p.ID, "DELETE /projects/" + p.ID, "POST /users", "PATCH /users/" + u.ID, "DELETE /users/" + u.ID,
			"GET " + grant, "PUT " + grant + "/" + roleID(t, admin, "admin"), "DELETE " + grant + "/" + roleID(t, admin, "member"), "PATCH /projects/unknown",
		} {
			method, path, _ := strings.Cut(request, " ")
			require.Equal(t, 403, b.send(t, method, b.AuthURL()+path, `{"project":{"name":"x"},"user":{"name":"x"}}`, "X-Auth-Token", token).status, "%s: %s", who, request)
		}
	}
	// What strongroom logs in with stays, whoever asks.
	pages, err := users.List(admin, users.ListOpts{Name: "strongroom"}).AllPages(t.Context())
	require.NoError(t, err)
	found, err := users.ExtractUsers(pages)
	require.NoError(t, err)
	service := found[0].ID
	projectPages, err := projects.List(admin, projects.ListOpts{Name: "service"}).AllPages(t.Context())
	require.NoError(t, err)
	home, err := projects.ExtractProjects(projectPages)
	require.NoError(t, err)
	for _, request := range []string{
		"PATCH /projects/" + home[0].ID, "DELETE /projects/" + home[0].ID, "PATCH /users/" + service, "DELETE /users/" + service,
		"DELETE /projects/" + home[0].ID + "/users/" + service + "/roles/" + roleID(t, admin, "service"),
		"PUT /projects/" + home[0].ID + "/users/" + service + "/roles/" + roleID(t, admin, "reader"),
	} {
		method, path, _ := strings.Cut(request, " ")
		got := b.send(t, method, b.AuthURL()+path, `{"project":{"name":"x"},"user":{"name":"x"}}`, "X-Auth-Token", admin.TokenID)
		require.Equal(t, 403, got.status, "%s: %s", request, got.body)
		require.Contains(t, string(got.body), "strongroom itself logs in", request)
	}
	after, err := os.ReadFile(b.cfg.UsersFile)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

// What cannot be done is said, and nothing of it is done.
func TestChangesThatAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin := identityOf(t, b.login(t, "admin", "admin"))
	p, u := newUser(t, admin, "team", "ann", "first")
	before, err := os.ReadFile(b.cfg.UsersFile)
	require.NoError(t, err)
	for _, tc := range []struct {
		request, body string
		status        int
		says          string
	}{
		{"POST /projects", `{}`, 400, `member \"project\"`},
		{"POST /projects", `{"project":null}`, 400, `member \"project\"`},
		{"POST /projects", `{"project":[]}`, 400, `member \"project\"`},
		{"POST /projects", `{"project":{}}`, 400, "needs a name"},
		{"POST /projects", `{"project":{"name":" "}}`, 400, "1 to 64 characters"},
		{"POST /projects", `{"project":{"name":"` + strings.Repeat("é", 65) + `"}}`, 400, "1 to 64 characters"},
		{"POST /projects", `{"project":{"name":7}}`, 400, `attribute \"name\"`},
		{"POST /projects", `{"project":{"name":"x","colour":"red"}}`, 501, `no attribute \"colour\"`},
		{"POST /projects", `{"project":{"name":null}}`, 400, "cannot be null"},
		{"POST /projects", `{"project":{"name":"a\nb"}}`, 400, "in one line"},
		{"POST /projects", `{"project":{"name":"x","tags":["a/b"]}}`, 400, "a comma or a slash"},
		{"POST /projects", `{"project":{"name":"a\u2028 b"}}`, 400, "in one line"},
		{"POST /projects", `{"project":{"name":"x","tags":"a"}}`, 400, `\"tags\" of the project is not a list of strings`},
		{"POST /projects", `{"project":{"name":"x","domain_id":7}}`, 400, `\"domain_id\" of the project is not a string`},
		{"POST /projects", `{"project":{"name":"x","options":7}}`, 400, `\"options\" of the project is not an object`},
		{"PATCH /projects/" + p.ID, `{"project":{"enabled":null}}`, 400, "cannot be null"},
		{"POST /projects", `{"project":{"name":"x","enabled":"yes"}}`, 400, `attribute \"enabled\"`},
		{"POST /projects", `{"project":{"name":"demo"}}`, 409, "already"},
		{"POST /projects", `{"project":{"name":"x","domain_id":"other"}}`, 501, "one domain"},
		{"POST /projects", `{"project":{"name":"x","parent_id":"` + p.ID + `"}}`, 501, "no projects in projects"},
		{"POST /projects", `{"project":{"name":"x","is_domain":true}}`, 501, "makes no domains"},
		{"PATCH /projects/" + p.ID, `{"project":{"name":"demo"}}`, 409, "already"},
		{"PATCH /projects/unknown", `{"project":{"name":"x"}}`, 404, "unknown"},
		{"DELETE /projects/unknown", ``, 404, "unknown"},
		{"POST /users", `{"user":{}}`, 400, "needs a name"},
		{"POST /users", `{"user":{"name":"demo","password":"x"}}`, 409, "already"},
		{"POST /users", `{"user":{"name":"x","password":""}}`, 400, "1 to 72 bytes"},
		{"POST /users", `{"user":{"name":"x","password":12345678}}`, 400, `attribute \"password\"`},
		{"POST /users", `{"user":{"name":"x","default_project_id":"unknown"}}`, 400, "unknown"},
		{"POST /users", `{"user":{"name":"x","options":{"multi_factor_auth_enabled":true}}}`, 501, "multi_factor_auth_enabled"},
		{"PATCH /users/" + u.ID, `{"user":{"name":"demo"}}`, 409, "already"},
		{"PATCH /users/unknown", `{"user":{"name":"x"}}`, 404, "unknown"},
		{"PUT /projects/unknown/users/" + u.ID + "/roles/x", ``, 404, "project: unknown"},
		{"PUT /projects/" + p.ID + "/users/unknown/roles/x", ``, 404, "user: unknown"},
		{"PUT /projects/" + p.ID + "/users/" + u.ID + "/roles/unknown", ``, 404, "role: unknown"},
	} {
		method, path, _ := strings.Cut(tc.request, " ")
		got := b.send(t, method, b.AuthURL()+path, tc.body, "X-Auth-Token", admin.TokenID)
		require.Equal(t, tc.status, got.status, "%s %s: %s", tc.request, tc.body, got.body)
		require.Contains(t, string(got.body), tc.says, "%s %s", tc.request, tc.body)
		require.NotContains(t, string(got.body), "12345678", "a password is not quoted")
	}
	after, err := os.ReadFile(b.cfg.UsersFile)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

// Changes at once are all kept, and what was edited in the file by hand is, too.
func TestChangesAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin := b.login(t, "admin", "admin").TokenID
	text, err := os.ReadFile(b.cfg.UsersFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(b.cfg.UsersFile, []byte(strings.Replace(string(text), "projects:\n", "projects:\n    - id: byhand\n      name: byhand\n", 1)), 0o600))
	const many = 20
	var all sync.WaitGroup
	status := make([]int, 2*many)
	for n := range status {
		all.Go(func() {
			body := fmt.Sprintf(`{"project":{"name":"p%d"}}`, n%many) // each name twice
			status[n] = b.send(t, "POST", b.AuthURL()+"/projects", body, "X-Auth-Token", admin).status
		})
	}
	all.Wait()
	count := map[int]int{}
	for _, s := range status {
		count[s]++
	}
	require.Equal(t, map[int]int{201: many, 409: many}, count)
	found, err := devcloud.Projects(b.cfg.UsersFile)
	require.NoError(t, err)
	require.Len(t, found, many+4) // admin, demo, alt, and the one by hand
	require.Equal(t, 200, b.send(t, "GET", b.AuthURL()+"/projects/byhand", "", "X-Auth-Token", admin).status)

	// Empty lists and maps that somebody wrote are no reason to refuse a change.
	text, err = os.ReadFile(b.cfg.UsersFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(b.cfg.UsersFile, []byte(strings.Replace(string(text), "name: byhand\n", "name: byhand\n      tags: []\n", 1)+"roles: []\n"), 0o600))
	require.Equal(t, 201, b.send(t, "POST", b.AuthURL()+"/projects", `{"project":{"name":"after"}}`, "X-Auth-Token", admin).status)

	// A file that cannot be read is left as it is.
	require.NoError(t, os.WriteFile(b.cfg.UsersFile, []byte("projects: 7\n"), 0o600))
	require.Equal(t, 409, b.send(t, "POST", b.AuthURL()+"/projects", `{"project":{"name":"late"}}`, "X-Auth-Token", admin).status)
	text, err = os.ReadFile(b.cfg.UsersFile)
	require.NoError(t, err)
	require.Equal(t, "projects: 7\n", string(text))
	require.Equal(t, 200, b.send(t, "GET", b.AuthURL()+"/projects/byhand", "", "X-Auth-Token", admin).status)
}

// The network of a project is its own for as long as it lives: one that goes moves no other's.
func TestNetworksOfProjectsStay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin := identityOf(t, b.login(t, "admin", "admin"))
	numbers := func() map[string]int {
		found, err := devcloud.Projects(b.cfg.UsersFile)
		require.NoError(t, err)
		out := map[string]int{}
		for _, p := range found {
			out[p.Name] = p.Network
		}
		return out
	}
	require.Equal(t, map[string]int{"admin": 1, "demo": 2, "alt": 3}, numbers())
	first, _ := newUser(t, admin, "first", "ann", "x")
	newUser(t, admin, "second", "ben", "x")
	require.NoError(t, projects.Delete(t.Context(), admin, first.ID).ExtractErr())
	require.Equal(t, map[string]int{"admin": 1, "demo": 2, "alt": 3, "second": 5}, numbers())
	newUser(t, admin, "third", "cid", "x")
	require.Equal(t, map[string]int{"admin": 1, "demo": 2, "alt": 3, "second": 5, "third": 4}, numbers())

	// A file of an earlier release has no numbers: they follow from the order, once.
	text, err := os.ReadFile(b.cfg.UsersFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(b.cfg.UsersFile, regexp.MustCompile(`(?m)^ +network: \d+\n`).ReplaceAll(text, nil), 0o600))
	byOrder := map[string]int{"admin": 1, "demo": 2, "alt": 3, "second": 4, "third": 5}
	require.Equal(t, byOrder, numbers())
	again := func(map[string]string) error { return errors.New("there are users") }
	require.NoError(t, devcloud.EnsureUsers(b.cfg.UsersFile, again))
	text, err = os.ReadFile(b.cfg.UsersFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(b.cfg.UsersFile, []byte(strings.Replace(string(text), "projects:\n", "projects:\n    - id: byhand\n      name: byhand\n", 1)), 0o600))
	byOrder["byhand"] = 6
	require.Equal(t, byOrder, numbers(), "one that is put before them by hand moves none")
}

// What people write comes back as they wrote it, also after a restart.
func TestTextsAreKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin := b.login(t, "admin", "admin").TokenID
	for n, words := range []string{" a\nb", "\nfoo\nbar", "\ta\nb", "  a\n  b", "# no comment", "null", "yes", "a: b", "- x", "\"'\\", "é\u2028\u0085", "a\r\nb\n", "0x1F"} {
		body, err := json.Marshal(map[string]any{"project": map[string]any{"name": fmt.Sprint("yes: #", n), "description": words, "tags": []string{"null", words[:1] + "t"}}})
		require.NoError(t, err)
		got := b.send(t, "POST", b.AuthURL()+"/projects", string(body), "X-Auth-Token", admin)
		if strings.ContainsAny(words[:1], "\n\t") { // in a tag
			require.Equal(t, 400, got.status)
			body, err = json.Marshal(map[string]any{"project": map[string]any{"name": fmt.Sprint("yes: #", n), "description": words}})
			require.NoError(t, err)
			got = b.send(t, "POST", b.AuthURL()+"/projects", string(body), "X-Auth-Token", admin)
		}
		require.Equal(t, 201, got.status, "%q: %s", words, got.body)
		made := got.json(t)["project"].(map[string]any)
		b.stop()
		b.start(t)
		require.Equal(t, made, b.send(t, "GET", b.AuthURL()+"/projects/"+made["id"].(string), "", "X-Auth-Token", admin).json(t)["project"])
		require.Equal(t, words, made["description"])
	}
}

// A role of the file that nobody has any more can be given again.
func TestARoleThatNobodyHasStays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	text, err := os.ReadFile(b.cfg.UsersFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(b.cfg.UsersFile, []byte(strings.Replace(string(text), "- creator\n", "- creator\n            - auditor\n", 1)), 0o600))
	b.stop()
	b.start(t)
	admin := identityOf(t, b.login(t, "admin", "admin"))
	auditor := roleID(t, admin, "auditor")
	p, u := newUser(t, admin, "team", "ann", "x")
	pages, err := roles.ListAssignments(admin, roles.ListAssignmentsOpts{RoleID: auditor}).AllPages(t.Context())
	require.NoError(t, err)
	has, err := roles.ExtractRoleAssignments(pages)
	require.NoError(t, err)
	require.Len(t, has, 1)
	require.NoError(t, roles.Unassign(t.Context(), admin, auditor, roles.UnassignOpts{UserID: has[0].User.ID, ProjectID: has[0].Scope.Project.ID}).ExtractErr())
	require.NoError(t, roles.Assign(t.Context(), admin, auditor, roles.AssignOpts{UserID: u.ID, ProjectID: p.ID}).ExtractErr())
}

// A query shows what it asks for, and nothing else.
func TestQueriesOfTheDirectory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin := identityOf(t, b.login(t, "admin", "admin"))
	p, u := newUser(t, admin, "team", "ann", "x")
	off := false
	_, err := projects.Create(t.Context(), admin, projects.CreateOpts{Name: "asleep", Enabled: &off, Tags: []string{"a"}}).Extract()
	require.NoError(t, err)
	for query, want := range map[string]string{
		"projects?name=team": "team", "projects?enabled=false": "asleep", "projects?enabled=True&name__startswith=te": "team", "projects?name__icontains=SLEE": "asleep",
		"projects?tags=a": "asleep,team", "projects?tags=a,b": "team", "projects?tags-any=b,c": "team", "projects?not-tags=a,b": "admin,alt,asleep,demo,service",
		"projects?not-tags-any=a,b": "admin,alt,demo,service", "projects?parent_id=" + p.ID: "", "projects?is_domain=true": "", "projects?domain_id=default&name=team": "team",
		"projects?domain_id=other": "", "users?name=ann&enabled=true": "ann", "users?enabled=false": "", "users?unique_id=x": "", "users?domain_id=default&name__endswith=nn": "ann",
		"roles?name=member": "member", "roles?domain_id=default": "",
	} {
		kind, _, _ := strings.Cut(query, "?")
		var names []string
		for _, one := range b.send(t, "GET", b.AuthURL()+"/"+query, "", "X-Auth-Token", admin.TokenID).json(t)[kind].([]any) {
			names = append(names, one.(map[string]any)["name"].(string))
		}
		slices.Sort(names)
		require.Equal(t, want, strings.Join(names, ","), query)
	}
	for query, want := range map[string]int{
		"user.id=" + u.ID: 1, "user.id=" + u.ID + "&scope.project.id=" + p.ID: 1, "user.id=" + u.ID + "&scope.domain.id=default": 0, "user.id=" + u.ID + "&scope.system=all": 0,
		"group.id=x": 0, "scope.OS-INHERIT:inherited_to=projects": 0,
	} {
		all := b.send(t, "GET", b.AuthURL()+"/role_assignments?"+query, "", "X-Auth-Token", admin.TokenID).json(t)["role_assignments"]
		require.Len(t, all, want, query)
	}
	// strongroom's own services tell a project that is gone from one that they may not see.
	service := b.login(t, "strongroom", "service").TokenID
	require.Equal(t, 200, b.send(t, "GET", b.AuthURL()+"/projects/"+p.ID, "", "X-Auth-Token", service).status)
	require.Equal(t, 404, b.send(t, "GET", b.AuthURL()+"/projects/unknown", "", "X-Auth-Token", service).status)
	require.Equal(t, 403, b.send(t, "GET", b.AuthURL()+"/projects/unknown", "", "X-Auth-Token", b.login(t, "demo", "demo").TokenID).status)
}

// The standard client's commands.
func TestTheStandardClientMakesProjectsAndUsers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	client := b.python(t, "admin")
	run := func(args ...string) []byte {
		out, said, err := client.Run(t, args...)
		require.NoError(t, err, "%v: %s", args, said)
		return []byte(out)
	}
	made := parse[map[string]any](t, run("project", "create", "-f", "json", "--description", "ours", "--tag", "x", "team"))
	require.Equal(t, "ours", made["description"])
	run("user", "create", "--project", "team", "--password", "first", "--email", "ann@example.org", "ann")
	run("role", "add", "--user", "ann", "--project", "team", "member")
	run("role", "add", "--user", "ann", "--project", "team", "creator")
	run("role", "remove", "--user", "ann", "--project", "team", "creator")
	assigned := parse[[]map[string]any](t, run("role", "assignment", "list", "-f", "json", "--names", "--user", "ann"))
	require.Len(t, assigned, 1)
	require.Equal(t, "member", assigned[0]["Role"])
	_, err := b.tryLogin(t, "ann", "first", "team")
	require.NoError(t, err)
	run("user", "set", "--password", "second", "ann")
	_, err = b.tryLogin(t, "ann", "second", "team")
	require.NoError(t, err)
	run("project", "set", "--name", "crew", "--disable", "team")
	require.Equal(t, false, parse[map[string]any](t, run("project", "show", "-f", "json", "crew"))["enabled"])
	run("user", "delete", "ann")
	run("project", "delete", "crew")
}
