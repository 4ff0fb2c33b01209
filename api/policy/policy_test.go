package policy_test

import (
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
