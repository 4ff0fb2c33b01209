package keystone_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/trusts"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	"github.com/stretchr/testify/require"

	"strongroom/activities/key"
	"strongroom/activities/key/barbican"
	"strongroom/activities/openstack"
	"strongroom/activities/openstack/keystone"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// bench is a cloud as its administrator sees it. What it makes goes with the test.
type bench struct {
	url   string
	admin *gophercloud.ServiceClient // of the identity service
}

// account is a user with a password.
type account struct{ id, name, password string }

func setup(t *testing.T, cloudsFile string) bench {
	t.Helper()
	options, _, _, err := clouds.Parse(clouds.WithLocations(cloudsFile), clouds.WithCloudName("admin"))
	require.NoError(t, err)
	options.AllowReauth = true
	provider, err := gopher.AuthenticatedClient(t.Context(), options)
	require.NoError(t, err)
	admin, err := gopher.NewIdentityV3(provider, gophercloud.EndpointOpts{})
	require.NoError(t, err)
	return bench{url: options.IdentityEndpoint, admin: admin}
}

func (b bench) project(t *testing.T) (id, name string) {
	t.Helper()
	p, err := projects.Create(t.Context(), b.admin, projects.CreateOpts{Name: "test-" + uuid.NewString(), DomainID: "default"}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, projects.Delete(context.Background(), b.admin, p.ID).ExtractErr()) })
	return p.ID, p.Name
}

func (b bench) user(t *testing.T) account {
	t.Helper()
	a := account{name: "test-" + uuid.NewString(), password: strings.ReplaceAll(uuid.NewString(), "-", "")}
	u, err := users.Create(t.Context(), b.admin, users.CreateOpts{Name: a.name, Password: a.password, DomainID: "default"}).Extract()
	require.NoError(t, err)
	a.id = u.ID
	t.Cleanup(func() { require.NoError(t, users.Delete(context.Background(), b.admin, a.id).ExtractErr()) })
	return a
}

func (b bench) role(t *testing.T, name string) string {
	t.Helper()
	pages, err := roles.List(b.admin, roles.ListOpts{Name: name}).AllPages(t.Context())
	require.NoError(t, err)
	found, err := roles.ExtractRoles(pages)
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0].ID
}

func (b bench) grant(t *testing.T, a account, project string, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, roles.Assign(t.Context(), b.admin, b.role(t, name), roles.AssignOpts{UserID: a.id, ProjectID: project}).ExtractErr())
	}
}

// member makes a user who may make secrets in the project.
func (b bench) member(t *testing.T, project string) account {
	t.Helper()
	a := b.user(t)
	b.grant(t, a, project, "member", "creator")
	return a
}

// login logs a user in, as its own client does.
func (b bench) login(t *testing.T, a account, project string) *gophercloud.ProviderClient {
	t.Helper()
	provider, err := gopher.AuthenticatedClient(t.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: b.url, UserID: a.id, Password: a.password, Scope: &gophercloud.AuthScope{ProjectID: project},
	})
	require.NoError(t, err)
	return provider
}

// trust lets a user trust another one, with the roles of member and creator.
func (b bench) trust(t *testing.T, from account, project, to string) string {
	t.Helper()
	identity, err := gopher.NewIdentityV3(b.login(t, from, project), gophercloud.EndpointOpts{})
	require.NoError(t, err)
	given, err := trusts.Create(t.Context(), identity, trusts.CreateOpts{
		Impersonation: true, TrustorUserID: from.id, TrusteeUserID: to, ProjectID: project,
		Roles: []trusts.Role{{Name: "member"}, {Name: "creator"}},
	}).Extract()
	require.NoError(t, err)
	return given.ID
}

// revoke ends a token and waits until tokens that are issued next are good:
// Keystone refuses those of the same second.
func (b bench) revoke(t *testing.T, token string) {
	t.Helper()
	require.NoError(t, tokens.Revoke(t.Context(), b.admin, token).Err)
	pause(t)
}

// strongroom makes a user of its own for strongroom and opens the cloud with it.
func (b bench) strongroom(t *testing.T, change ...func(*keystone.Config)) (*keystone.Cloud, account, *authorities) {
	t.Helper()
	project, name := b.project(t)
	a := b.user(t)
	b.grant(t, a, project, "service", "member", "creator")
	known := &authorities{of: map[uuid.UUID]known{}}
	cfg := keystone.Config{
		AuthURL: b.url, Username: a.name, Password: secret.New([]byte(a.password)), Project: name, Domain: "Default",
		Region: "RegionOne", Authorities: known,
	}
	for _, c := range change {
		c(&cfg)
	}
	cloud, err := keystone.Open(t.Context(), cfg)
	require.NoError(t, err)
	return cloud, a, known
}

// authorities are what credentials stand for, as the database knows it.
type authorities struct {
	mu sync.Mutex
	of map[uuid.UUID]known
}

type known struct{ project, token, trust string }

func (a *authorities) add(project, token, trust string) compute.Credential {
	a.mu.Lock()
	defer a.mu.Unlock()
	cred := compute.Credential{ID: uuid.New(), ProjectID: project}
	a.of[cred.ID] = known{project, token, trust}
	return cred
}

func (a *authorities) Authority(_ context.Context, cred compute.Credential) (openstack.Authority, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, ok := a.of[cred.ID]
	if !ok {
		return openstack.Authority{}, compute.Errorf(compute.Forbidden, "credential %s stands for nothing any more", cred.ID)
	}
	out := openstack.Authority{ProjectID: k.project, TrustID: k.trust}
	if k.token != "" {
		out.Token = secret.New([]byte(k.token))
	}
	return out, nil
}

// keys keeps secrets in the cloud's Barbican.
func keys(cloud *keystone.Cloud) *barbican.Manager {
	return &barbican.Manager{Clients: cloud.Clients("key-manager")}
}

// works makes, reads and deletes a secret.
func works(t *testing.T, cloud *keystone.Cloud, cred compute.Credential) {
	t.Helper()
	m := keys(cloud)
	in := key.CreateInput{Credential: cred, Name: "test " + uuid.NewString(), Bytes: compute.DiskPassphraseBytes}
	id, err := m.Create(t.Context(), in)
	require.NoError(t, err)
	p, err := m.Passphrase(t.Context(), cred, id)
	require.NoError(t, err)
	p.Wipe()
	require.NoError(t, m.Delete(t.Context(), key.DeleteInput{Credential: cred, Name: in.Name, ID: &id}))
}

// refused makes sure that a credential opens nothing, and gives what is said.
func refused(t *testing.T, cloud *keystone.Cloud, cred compute.Credential) string {
	t.Helper()
	_, err := keys(cloud).List(t.Context(), cred, key.ListInput{})
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	return err.Error()
}
