package keystone_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/trusts"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	"github.com/stretchr/testify/require"

	"strongroom/activities/openstack"
	identity "strongroom/activities/openstack/keystone"
	"strongroom/activities/secret"
	"strongroom/activities/trust"
	"strongroom/activities/trust/keystone"
	"strongroom/activities/trust/trusttest"
	"strongroom/compute"
	"strongroom/deploy/cloud"
	"strongroom/deploy/cloud/cloudtest"
)

// known are what credentials stand for.
type known map[uuid.UUID]openstack.Authority

func (k known) Authority(_ context.Context, cred compute.Credential) (openstack.Authority, error) {
	a, ok := k[cred.ID]
	if !ok {
		return a, compute.Errorf(compute.Forbidden, "credential %s stands for nothing", cred.ID)
	}
	if a.Token != nil {
		_ = a.Token.Use(func(value []byte) error {
			a.Token = secret.New(append([]byte(nil), value...)) // who asks wipes it
			return nil
		})
	}
	return a, nil
}

// add makes a credential of a login.
func (k known) add(t *testing.T, provider *gophercloud.ProviderClient) compute.Credential {
	t.Helper()
	userID, projectID := cloudtest.Who(t, provider)
	cred := compute.Credential{ID: uuid.New(), ProjectID: projectID, UserID: userID}
	k[cred.ID] = openstack.Authority{ProjectID: projectID, Token: secret.New([]byte(provider.Token()))}
	return cred
}

func open(t *testing.T, authorities known) *keystone.Keeper {
	t.Helper()
	login, _, _, err := clouds.Parse(clouds.WithLocations(cloudtest.Open(t)), clouds.WithCloudName(cloud.Service))
	require.NoError(t, err)
	c, err := identity.Open(t.Context(), identity.Config{
		AuthURL: login.IdentityEndpoint, Username: login.Username, Password: secret.New([]byte(login.Password)),
		Project: "service", Domain: "Default", Region: cloud.Region, Authorities: authorities,
	})
	require.NoError(t, err)
	return &keystone.Keeper{Cloud: c, Roles: []string{"creator", "member"}}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	theirs := cloudtest.NewProject(t).Login(t)
	t.Run("suite", func(t *testing.T) { // returns once its parallel tests are through
		trusttest.Run(t, func(t *testing.T) trusttest.Harness {
			authorities := known{}
			owner, other := authorities.add(t, cloudtest.NewProject(t).Login(t)), authorities.add(t, theirs)
			return trusttest.Harness{Keeper: open(t, authorities), Again: open(t, authorities), Owner: owner, Other: other}
		})
	})
}

// bench is a user who delegates.
type bench struct {
	*keystone.Keeper
	project  cloudtest.Project
	owner    compute.Credential
	provider *gophercloud.ProviderClient // the owner's own client
	known    known
}

func setup(t *testing.T, roles ...string) bench {
	t.Helper()
	b := bench{project: cloudtest.NewProject(t), known: known{}}
	b.provider = b.project.Login(t, roles...)
	b.owner = b.known.add(t, b.provider)
	b.Keeper = open(t, b.known)
	return b
}

func (b bench) create(t *testing.T, name string) string {
	t.Helper()
	id, err := b.Create(t.Context(), trust.CreateInput{Credential: b.owner, Name: name})
	require.NoError(t, err)
	return id
}

func (b bench) names(t *testing.T) []string {
	t.Helper()
	all, err := b.List(t.Context(), trust.ListInput{})
	require.NoError(t, err)
	names := []string{}
	for _, item := range all.Items {
		if item.ProjectID == b.project.ID {
			names = append(names, item.Name)
		}
	}
	return names
}

func (b bench) identity(t *testing.T, provider *gophercloud.ProviderClient) *gophercloud.ServiceClient {
	t.Helper()
	client, err := gopher.NewIdentityV3(provider, gophercloud.EndpointOpts{})
	require.NoError(t, err)
	return client
}

// H2: a trust passes on the configured roles of its owner and no other, in his name, and
// does not end by itself.
func TestH2TrustsDelegateTheConfiguredRolesAlone(t *testing.T) {
	t.Parallel()
	b := setup(t, "member", "creator", "admin")
	client, err := b.Cloud.ByTrust(t.Context(), "identity", b.create(t, "server"))
	require.NoError(t, err)
	said, ok := client.GetAuthResult().(tokens.CreateResult)
	require.True(t, ok)
	user, err := said.ExtractUser()
	require.NoError(t, err)
	require.Equal(t, b.owner.UserID, user.ID)
	passed, err := said.ExtractRoles()
	require.NoError(t, err)
	var names []string
	for _, r := range passed {
		names = append(names, r.Name)
	}
	require.ElementsMatch(t, []string{"creator", "member", "reader"}, names)
	expires, err := said.ExtractToken()
	require.NoError(t, err)
	require.Greater(t, time.Until(expires.ExpiresAt), 30*time.Minute)
}

// H2: who has none of the roles delegates nothing, and is told which are needed.
func TestH2NoneOfTheRolesDelegatesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, "reader")
	_, err := b.Create(t.Context(), trust.CreateInput{Credential: b.owner, Name: "server"})
	require.True(t, compute.Is(err, compute.Forbidden), "%v", err)
	require.ErrorContains(t, err, "needs a token with one of the roles creator, member")
	require.Empty(t, b.names(t))
}

// No token of a user is needed to remove a trust: strongroom acts by the trust itself.
func TestATrustIsDeletedByItself(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.create(t, "server")
	dead := compute.Credential{ID: uuid.New(), ProjectID: b.project.ID, UserID: b.owner.UserID}
	require.NoError(t, b.Delete(t.Context(), trust.DeleteInput{Credential: dead, Name: "server", ID: id}))
	require.Empty(t, b.names(t))

	// Another user of the project deletes the server.
	b.create(t, "server")
	colleague := b.known.add(t, b.project.Login(t))
	require.NoError(t, b.Delete(t.Context(), trust.DeleteInput{Credential: colleague, Name: "server"}))
	require.Empty(t, b.names(t))
}

// When the trust is good no more, only who gave it may remove it.
func TestATrustThatIsGoodNoMore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin := b.identity(t, cloudtest.Login(t, "admin"))
	id := b.create(t, "server")
	colleague := b.known.add(t, b.project.Login(t))
	enable := func(enabled bool) {
		require.NoError(t, users.Update(t.Context(), admin, b.owner.UserID, users.UpdateOpts{Enabled: &enabled}).Err)
		time.Sleep(1100 * time.Millisecond) // tokens of the same second are refused
	}
	enable(false)
	for _, cred := range []compute.Credential{b.owner, colleague, compute.MemberCredential(b.project.ID)} {
		err := b.Delete(t.Context(), trust.DeleteInput{Credential: cred, Name: "server", ID: id})
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	}
	require.Equal(t, []string{"server"}, b.names(t))
	enable(true)
	require.NoError(t, b.Delete(t.Context(), trust.DeleteInput{Credential: b.owner, Name: "server", ID: id}), "the owner's token is dead, the trust is good again")
	require.Empty(t, b.names(t))
}

// An owner who lost a role that he delegated can still take the trust back.
func TestTheOwnerTakesItBack(t *testing.T) {
	t.Parallel()
	b := setup(t, "member", "creator", "observer")
	b.Roles = append(b.Roles, "observer")
	id := b.create(t, "server")
	admin := b.identity(t, cloudtest.Login(t, "admin"))
	pages, err := roles.List(admin, roles.ListOpts{Name: "observer"}).AllPages(t.Context())
	require.NoError(t, err)
	observer, err := roles.ExtractRoles(pages)
	require.NoError(t, err)
	require.NoError(t, roles.Unassign(t.Context(), admin, observer[0].ID, roles.UnassignOpts{UserID: b.owner.UserID, ProjectID: b.project.ID}).ExtractErr())
	time.Sleep(1100 * time.Millisecond)
	_, err = b.Cloud.ByTrust(t.Context(), "identity", id)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	require.NoError(t, b.provider.Reauthenticate(t.Context(), ""))
	fresh := b.known.add(t, b.provider)
	require.NoError(t, b.Delete(t.Context(), trust.DeleteInput{Credential: fresh, Name: "server", ID: id}))
	require.Empty(t, b.names(t))
}

func TestWhatIsDelegatedCannotBePassedOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var made *applicationcredentials.ApplicationCredential
	for range 10 { // a Keystone with threads may look at the token of another request
		var err error
		made, err = applicationcredentials.Create(t.Context(), b.identity(t, b.provider), b.owner.UserID,
			applicationcredentials.CreateOpts{Name: "automation", Unrestricted: true}).Extract()
		if err == nil {
			break
		}
		t.Log(err)
	}
	require.NotNil(t, made)
	provider, err := gopher.AuthenticatedClient(t.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: b.provider.IdentityEndpoint, ApplicationCredentialID: made.ID, ApplicationCredentialSecret: made.Secret,
	})
	require.NoError(t, err)
	_, err = b.Create(t.Context(), trust.CreateInput{Credential: b.known.add(t, provider), Name: "server"})
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "application credentials cannot delegate")

	cred := compute.Credential{ID: uuid.New(), ProjectID: b.project.ID, UserID: b.owner.UserID}
	b.known[cred.ID] = openstack.Authority{ProjectID: b.project.ID, TrustID: b.create(t, "first")}
	_, err = b.Create(t.Context(), trust.CreateInput{Credential: cred, Name: "second"})
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "cannot be passed on")
	require.Equal(t, []string{"first"}, b.names(t))
}

// What a token delegated before it died is there: an attempt after that finds it.
func TestADeadTokenDelegatesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made := b.create(t, "before")
	require.NoError(t, tokens.Revoke(t.Context(), b.identity(t, cloudtest.Login(t, "admin")), b.provider.Token()).Err)
	_, err := b.Create(t.Context(), trust.CreateInput{Credential: b.owner, Name: "server"})
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	_, err = b.Create(t.Context(), trust.CreateInput{Credential: compute.Credential{ID: uuid.New(), ProjectID: b.project.ID, UserID: "x"}, Name: "server"})
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	require.Equal(t, []string{"before"}, b.names(t))
	require.Equal(t, made, b.create(t, "before"))
}

// Anybody may trust strongroom's user, in what words he likes.
func TestOthersTrustsAreLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	client := b.identity(t, b.provider)
	for _, attribute := range []any{nil, 7, map[string]any{"server": 1}} {
		_, err := trusts.Create(t.Context(), client, foreign{attribute: attribute, CreateOpts: trusts.CreateOpts{
			Impersonation: true, TrustorUserID: b.owner.UserID, TrusteeUserID: b.Cloud.User(), ProjectID: b.project.ID,
			Roles: []trusts.Role{{Name: "member"}},
		}}).Extract()
		require.NoError(t, err)
	}
	id := b.create(t, "server")
	require.Equal(t, []string{"server"}, b.names(t))
	require.NoError(t, b.Delete(t.Context(), trust.DeleteInput{Credential: b.owner, Name: "server", ID: id}))
	pages, err := trusts.List(client, trusts.ListOpts{TrustorUserID: b.owner.UserID}).AllPages(t.Context())
	require.NoError(t, err)
	left, err := trusts.ExtractTrusts(pages)
	require.NoError(t, err)
	require.Len(t, left, 3)
}

type foreign struct {
	trusts.CreateOpts
	attribute any
}

func (f foreign) ToTrustCreateMap() (map[string]any, error) {
	body, err := f.CreateOpts.ToTrustCreateMap()
	if f.attribute != nil {
		body["trust"].(map[string]any)["strongroom"] = f.attribute
	}
	return body, err
}
