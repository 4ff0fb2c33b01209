package policy_test

import (
	"os"
	"path/filepath"
	"testing"

	goslo "github.com/databus23/goslo.policy"
	"github.com/stretchr/testify/require"

	"strongroom/api/policy"
)

// TestRoles checks who passes the checks that resources use, on something of
// their own project and user, of their project, and of somebody else. Roles are
// taken as they come: a token may lack those that its own implies.
func TestRoles(t *testing.T) {
	t.Parallel()
	rules, err := policy.Merge(policy.Rules{
		"anyone": policy.Anyone, "nobody": policy.Nobody, "admin": policy.Admin, "reader": policy.ProjectReader, "member": policy.ProjectMember,
		"ra": policy.ProjectReaderOrAdmin, "ma": policy.ProjectMemberOrAdmin, "user": policy.UserOrAdmin,
	})
	require.NoError(t, err)
	enforcer, err := rules.Enforcer()
	require.NoError(t, err)
	for _, c := range []struct {
		role                string
		own, shared, others []string
	}{
		{"", []string{"anyone", "user"}, []string{"anyone"}, []string{"anyone"}},
		{"reader", []string{"anyone", "reader", "ra", "user"}, []string{"anyone", "reader", "ra"}, []string{"anyone"}},
		{"member", []string{"anyone", "reader", "member", "ra", "ma", "user"},
			[]string{"anyone", "reader", "member", "ra", "ma"}, []string{"anyone"}},
		{"admin", []string{"anyone", "admin", "reader", "member", "ra", "ma", "user"},
			[]string{"anyone", "admin", "reader", "member", "ra", "ma", "user"},
			[]string{"anyone", "admin", "ra", "ma", "user"}},
	} {
		passes := func(project, user string) []string {
			var passed []string
			for _, rule := range []string{"anyone", "nobody", "admin", "reader", "member", "ra", "ma", "user"} {
				if enforcer.Enforce(rule, goslo.Context{
					Auth: map[string]string{"project_id": "p", "user_id": "u"}, Roles: []string{c.role},
					Request: map[string]string{"project_id": project, "user_id": user},
				}) {
					passed = append(passed, rule)
				}
			}
			return passed
		}
		require.Equal(t, c.own, passes("p", "u"), c.role)
		require.Equal(t, c.shared, passes("p", "other"), c.role)
		require.Equal(t, c.others, passes("other", "other"), c.role)
	}
}

func TestMergeRefusesTwice(t *testing.T) {
	t.Parallel()
	_, err := policy.Merge(policy.Rules{"a": "@"}, policy.Rules{"a": "!"})
	require.EqualError(t, err, "policy: rule a is defined twice")
}

func TestSyntax(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{
		"", "@", "!", "role:a", "not role:a", "(role:a or role:b) and not (project_id:%(project_id)s)", "'x':%(target.user_id)s", `is_admin:"True"`, "True:%(x)s", "12:%(x)s", "is_admin:1",
		"rule:os:of:three", "  role:a  and role:b\tor role:c", "role:android or role:orange",
	} {
		_, err := policy.Rules{"r": rule, "os:of:three": "@"}.Enforcer()
		require.NoError(t, err, rule)
	}
	for _, rule := range []string{
		"role", "role:", ":a", "role:a role:b", "(role:a", "role:a)", "()", "and", "role:a and", "not", "role:a not", "role:%(a", "rule:none", "@@", "role:a:b", "role:and", "'a':b", "True:b", "12:b",
	} {
		_, err := policy.Rules{"r": rule}.Enforcer()
		require.Error(t, err, rule)
	}
}

func TestReferenceToARuleWithColons(t *testing.T) {
	t.Parallel()
	enforcer, err := policy.Rules{"os:a:b": "role:boss", "os:a:c": "not rule:os:a:b"}.Enforcer()
	require.NoError(t, err)
	require.True(t, enforcer.Enforce("os:a:b", goslo.Context{Roles: []string{"boss"}}))
	require.False(t, enforcer.Enforce("os:a:c", goslo.Context{Roles: []string{"boss"}}))
	require.True(t, enforcer.Enforce("os:a:c", goslo.Context{}))
}

// K5: policy files of Nova's clouds mean here what they mean there.
func TestK5PolicyFilesOfNova(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(`
"admin_api": "is_admin:True"
"os_compute_api:a": "rule:admin_api"
"os_compute_api:b": "is_admin:True or project_id:%(project_id)s"
"os_compute_api:c": "rule:project_member_api"
"os_compute_api:d": "rule:project_reader_api"
"os_compute_api:e": "rule:system_reader_api"
"os_compute_api:f": "rule:project_manager_or_admin"
"os_compute_api:g": "is_admin:False and project_id:%(project_id)s"
"os_compute_api:h": "role:admin and is_admin_project:True"
`)
	merged, err := policy.Merge()
	require.NoError(t, err)
	adminProject := "True" // as of a token that does not say
	passed := func(rules policy.Rules, role, project string) (passed string) {
		e, err := rules.Enforcer()
		require.NoError(t, err)
		for _, rule := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			if e.Enforce("os_compute_api:"+rule, goslo.Context{
				Auth: map[string]string{"project_id": "p", "user_id": "u", "is_admin_project": adminProject}, Roles: []string{role}, Request: map[string]string{"project_id": project},
			}) {
				passed += rule
			}
		}
		return passed
	}
	rules, err := merged.Override(file)
	require.NoError(t, err)
	for _, c := range []struct{ role, own, others string }{
		{"admin", "abcdfh", "abfh"}, {"manager", "bfg", ""}, {"member", "bcdg", ""}, {"reader", "bdg", ""}, {"", "bg", ""},
	} {
		require.Equal(t, c.own, passed(rules, c.role, "p"), c.role)
		require.Equal(t, c.others, passed(rules, c.role, "other"), c.role)
	}
	adminProject = "False"
	require.Equal(t, "abcdf", passed(rules, "admin", "p"))

	// Who an administrator is, the file may say, too.
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	write(string(text) + `"context_is_admin": "role:operator or is_admin:True"`)
	rules, err = merged.Override(file)
	require.NoError(t, err)
	require.Equal(t, "abf", passed(rules, "operator", "other"))
	require.Equal(t, "bcdfg", passed(rules, "admin", "p"), "no more one of other projects")

	// Nova's base rules decide what its other rules refer to.
	write(`{"project_member_api": "role:clerk and project_id:%(project_id)s", "os_compute_api:a": "rule:project_member_or_admin", "os_compute_api:b": "rule:project_member"}`)
	rules, err = merged.Override(file)
	require.NoError(t, err)
	require.Equal(t, "ab", passed(rules, "clerk", "p"))
	require.Empty(t, passed(rules, "member", "p"))
	require.Equal(t, "a", passed(rules, "admin", "other"))

	// While the context is made it says nothing of the user, neither the one nor the other.
	write(`{"context_is_admin": "rule:cloud_admin or is_admin:False", "cloud_admin": "role:boss or is_admin:True", "os_compute_api:a": "is_admin:True", "os_compute_api:b": "rule:cloud_admin"}`)
	rules, err = merged.Override(file)
	require.NoError(t, err)
	require.Equal(t, "ab", passed(rules, "boss", "other"))
	require.Empty(t, passed(rules, "member", "p"))

	for text, want := range map[string]string{
		`"os_compute_api:a": "rule:project_membr"`: "rule os_compute_api:a refers to rule project_membr, which does not exist; there are admin_api, admin_or_owner, context_is_admin, ",
		`"context_is_admin": "rule:admin_api"`:     "rule context_is_admin refers to itself: context_is_admin, which refers to admin_api, which refers to context_is_admin",
		`{"a": "rule:b", "b": "not rule:a"}`:       "rule a refers to itself: a, which refers to b, which refers to a",
		`"os_compute_api:a": "role:a role:b"`:      `rule os_compute_api:a: it cannot be read from "role:b" on`,
	} {
		write(text)
		_, err = merged.Override(file)
		require.ErrorContains(t, err, "policy: "+file+": "+want)
	}
}
