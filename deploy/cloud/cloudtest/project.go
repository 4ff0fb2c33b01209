package cloudtest

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	"github.com/stretchr/testify/require"
)

// Project is a project of one test, in which nobody else works.
type Project struct {
	ID string
	operator
}

// operator is the administrator who makes projects.
type operator struct {
	identity *gophercloud.ServiceClient
	roles    map[string]string // ids by name
}

// operators are those of this process, by the cloud's clouds.yaml: to log in and look
// for the roles costs Keystone as much as to make a project.
var operators struct {
	sync.Mutex
	of map[string]operator
}

func openOperator(t testing.TB) operator {
	t.Helper()
	operators.Lock()
	defer operators.Unlock()
	file := Open(t)
	if o, ok := operators.of[file]; ok {
		return o
	}
	identity, err := openstack.NewIdentityV3(Login(t, "admin"), Endpoint)
	require.NoError(t, err)
	pages, err := roles.List(identity, nil).AllPages(t.Context())
	require.NoError(t, err)
	found, err := roles.ExtractRoles(pages)
	require.NoError(t, err)
	o := operator{identity: identity, roles: map[string]string{}}
	for _, role := range found {
		o.roles[role.Name] = role.ID
	}
	if operators.of == nil {
		operators.of = map[string]operator{}
	}
	operators.of[file] = o
	return o
}

// NewProject makes a project that goes with the test.
func NewProject(t testing.TB) Project {
	t.Helper()
	o := openOperator(t)
	project, err := projects.Create(t.Context(), o.identity, projects.CreateOpts{Name: "test-" + uuid.NewString(), DomainID: "default"}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, projects.Delete(context.Background(), o.identity, project.ID).ExtractErr()) })
	return Project{ID: project.ID, operator: o}
}

// User makes a user with the roles in the project, who goes with the test. Without
// roles it gets member and creator.
func (p Project) User(t testing.TB, granted ...string) (user *users.User, password string) {
	t.Helper()
	if len(granted) == 0 {
		granted = []string{"member", "creator"}
	}
	name, password := "test-"+uuid.NewString(), strings.ReplaceAll(uuid.NewString(), "-", "")
	user, err := users.Create(t.Context(), p.identity, users.CreateOpts{Name: name, Password: password, DomainID: "default"}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, users.Delete(context.Background(), p.identity, user.ID).ExtractErr()) })
	for _, role := range granted {
		require.Contains(t, p.roles, role)
		require.NoError(t, roles.Assign(t.Context(), p.identity, p.roles[role], roles.AssignOpts{UserID: user.ID, ProjectID: p.ID}).ExtractErr())
	}
	return user, password
}

// Login logs in as a User made for it.
func (p Project) Login(t testing.TB, granted ...string) *gophercloud.ProviderClient {
	t.Helper()
	user, password := p.User(t, granted...)
	client, err := openstack.NewClient(p.identity.IdentityEndpoint)
	require.NoError(t, err)
	client.HTTPClient = http.Client{Timeout: 2 * time.Minute}
	require.NoError(t, openstack.Authenticate(t.Context(), client, gophercloud.AuthOptions{
		IdentityEndpoint: p.identity.IdentityEndpoint, UserID: user.ID, Password: password, AllowReauth: true,
		Scope: &gophercloud.AuthScope{ProjectID: p.ID},
	}))
	return client
}
