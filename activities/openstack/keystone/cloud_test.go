package keystone_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/osinherit"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	"github.com/stretchr/testify/require"

	"strongroom/activities/key"
	"strongroom/activities/openstack/keystone"
	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/deploy/cloud"
	"strongroom/deploy/cloud/cloudtest"
)

// pause waits until services know of a revocation, and what Keystone issues next is later.
func pause(t *testing.T) {
	t.Helper()
	time.Sleep(cloud.TestTokenCache + 1100*time.Millisecond)
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.Open(t))
	_, name := b.project(t)
	a := b.user(t)
	good := func() keystone.Config {
		return keystone.Config{AuthURL: b.url, Username: a.name, Password: secret.New([]byte(a.password)), Project: name, Domain: "Default"}
	}
	_, err := keystone.Open(t.Context(), good()) // it has no role there
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "refuses the user "+a.name)

	cfg := good()
	cfg.Password = secret.New([]byte("canary"))
	_, err = keystone.Open(t.Context(), cfg)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	require.NotContains(t, err.Error(), "canary")

	cfg = good()
	cfg.AuthURL = "http://127.0.0.1:1/v3"
	_, err = keystone.Open(t.Context(), cfg)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)

	cfg = good()
	cfg.Interface = "outside"
	_, err = keystone.Open(t.Context(), cfg)
	require.ErrorContains(t, err, "there are public, internal and admin")
	cfg = good()
	cfg.AuthURL = ""
	_, err = keystone.Open(t.Context(), cfg)
	require.Equal(t, compute.Invalid, compute.KindOf(err), "%v", err)
}

func TestStrongroomsOwnProject(t *testing.T) {
	t.Parallel()
	cloud, a, _ := setup(t, cloudtest.Open(t)).strongroom(t)
	works(t, cloud, compute.DeploymentCredential())
	require.Equal(t, a.id, cloud.User())

	client, err := cloud.Clients("image").Client(t.Context(), compute.Credential{})
	require.NoError(t, err)
	response, err := client.Get(t.Context(), client.ServiceURL("images"), nil, nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
}

// What the operator lets strongroom do in projects of users: nothing, until he gives
// it a role on the domain that projects inherit.
func TestARoleInAProjectOfUsers(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.Open(t))
	cloud, a, _ := b.strongroom(t)
	project, _ := b.project(t)
	cred := compute.MemberCredential(project)
	require.Contains(t, refused(t, cloud, cred), "the login to project "+project+" is refused")

	options := osinherit.AssignOpts{UserID: a.id, DomainID: "default"}
	creator := b.role(t, "creator")
	require.NoError(t, osinherit.Assign(t.Context(), b.admin, creator, options).ExtractErr())
	pause(t)
	works(t, cloud, cred)

	require.NoError(t, osinherit.Unassign(t.Context(), b.admin, creator, osinherit.UnassignOpts(options)).ExtractErr())
	pause(t)
	refused(t, cloud, cred)
	refused(t, cloud, compute.MemberCredential(""))
}

func TestATokenOfAUser(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.Open(t))
	cloud, _, known := b.strongroom(t)
	project, _ := b.project(t)
	token := b.login(t, b.member(t, project), project).Token()
	cred := known.add(project, token, "")
	works(t, cloud, cred)

	b.revoke(t, token)
	require.NotContains(t, refused(t, cloud, cred), token)
	require.NotContains(t, refused(t, cloud, known.add(project, "canary", "")), "canary")
	refused(t, cloud, known.add(project, "", ""))
	refused(t, cloud, compute.Credential{ID: uuid.New(), ProjectID: project})
}

func TestATrust(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.Open(t))
	cloud, _, known := b.strongroom(t)
	project, _ := b.project(t)
	owner := b.member(t, project)
	trust := b.trust(t, owner, project, cloud.User())
	cred := known.add(project, "", trust)
	works(t, cloud, cred)

	client, err := cloud.ByTrust(t.Context(), "identity", trust)
	require.NoError(t, err)
	who, ok := client.GetAuthResult().(tokens.CreateResult)
	require.True(t, ok)
	user, err := who.ExtractUser()
	require.NoError(t, err)
	require.Equal(t, owner.id, user.ID)

	// The owner loses a role that the trust passes on.
	require.NoError(t, roles.Unassign(t.Context(), b.admin, b.role(t, "creator"), roles.UnassignOpts{UserID: owner.id, ProjectID: project}).ExtractErr())
	pause(t)
	refused(t, cloud, cred)
	_, err = cloud.ByTrust(t.Context(), "identity", "00000000000000000000000000000000")
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
}

// Barbican knows a secret's project by the token alone: with one of another project it
// would find nothing, and a delete would count as done.
func TestAnotherProjectsAuthorityIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.Open(t))
	cloud, _, known := b.strongroom(t)
	mine, _ := b.project(t)
	theirs, _ := b.project(t)
	owner := b.member(t, theirs)
	token := b.login(t, owner, theirs).Token()
	trust := b.trust(t, owner, theirs, cloud.User())
	for name, cred := range map[string]compute.Credential{
		"a token that is known to be another project's": known.add(theirs, token, ""),
		"a trust that is known to be another project's": known.add(theirs, "", trust),
		"a token that turns out to be another's":        known.add(mine, token, ""),
		"a trust that turns out to be another's":        known.add(mine, "", trust),
	} {
		cred.ProjectID = mine
		require.Contains(t, refused(t, cloud, cred), "is for another project", name)
	}
	nowhere := known.add("", token, "")
	refused(t, cloud, nowhere)
	_, err := cloud.Clients("image").Client(t.Context(), nowhere)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
}

// The object store's addresses bear the project's id.
func TestEndpointsAreThoseOfTheProject(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.Open(t))
	cloud, a, known := b.strongroom(t)
	project, _ := b.project(t)
	owner := b.member(t, project)
	b.grant(t, a, project, "member")
	for name, cred := range map[string]compute.Credential{
		"token": known.add(project, b.login(t, owner, project).Token(), ""), "trust": known.add(project, "", b.trust(t, owner, project, cloud.User())),
		"member": compute.MemberCredential(project),
	} {
		for range 2 { // the second one from memory
			client, err := cloud.Clients("object-store").Client(t.Context(), cred)
			require.NoError(t, err)
			require.Regexp(t, "/v1/AUTH_"+project+"/$", client.Endpoint, name)
			response, err := client.Get(t.Context(), client.Endpoint+"?format=json", nil, nil)
			require.NoError(t, err, name)
			require.NoError(t, response.Body.Close())
		}
	}
	_, err := cloud.Clients("compute").Client(t.Context(), compute.Credential{})
	require.Equal(t, compute.Invalid, compute.KindOf(err), "%v", err)

	elsewhere, _, _ := b.strongroom(t, func(cfg *keystone.Config) { cfg.Region = "Nowhere" })
	_, err = elsewhere.Clients("object-store").Client(t.Context(), compute.DeploymentCredential())
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, `no public endpoint of object-store in region "Nowhere"`)
}

// A service may refuse strongroom's own token before its time. It is renewed once and
// the request sent again, if it can be.
func TestARevokedServiceToken(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.Open(t))
	cloud, a, known := b.strongroom(t)
	project, _ := b.project(t)
	cred := known.add(project, b.login(t, b.member(t, project), project).Token(), "")
	works(t, cloud, cred)
	own, err := cloud.Clients("key-manager").Client(t.Context(), compute.DeploymentCredential())
	require.NoError(t, err)
	end := func() { // all tokens of strongroom's own user
		for _, enabled := range []bool{false, true} {
			require.NoError(t, users.Update(t.Context(), b.admin, a.id, users.UpdateOpts{Enabled: &enabled}).Err)
		}
		pause(t)
	}

	end()
	response, err := own.Post(t.Context(), own.ServiceURL("secrets"), stream{[]byte(`{"name": "never"}`)}.reader(), nil, nil)
	require.ErrorContains(t, err, "401", "a stream cannot be sent twice")
	_ = response.Body.Close()
	works(t, cloud, compute.DeploymentCredential())
	end()
	works(t, cloud, cred)
}

// Nobody's credential is at fault when strongroom cannot log in: nothing is forbidden,
// it waits.
func TestStrongroomsPasswordChanges(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.Open(t))
	cloud, a, known := b.strongroom(t)
	project, _ := b.project(t)
	owner := b.member(t, project)
	token := b.login(t, owner, project).Token()
	creds := []compute.Credential{
		compute.DeploymentCredential(), compute.MemberCredential(project), known.add(project, token, ""),
		known.add(project, "", b.trust(t, owner, project, cloud.User())),
	}
	works(t, cloud, creds[3])
	require.NoError(t, users.Update(t.Context(), b.admin, a.id, users.UpdateOpts{Password: "another"}).Err)
	pause(t)
	for i, cred := range creds {
		_, err := keys(cloud).List(t.Context(), cred, key.ListInput{})
		require.Equal(t, compute.Unavailable, compute.KindOf(err), "%d: %v", i, err)
		require.ErrorContains(t, err, "strongroom's own user", i)
	}
	require.NoError(t, users.Update(t.Context(), b.admin, a.id, users.UpdateOpts{Password: a.password}).Err)
	pause(t)
	works(t, cloud, creds[2])
	works(t, cloud, creds[3])
}
