package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/await"
	"strongroom/deploy/cloud"
	"strongroom/deploy/cloud/cloudtest"
)

// What dies of a credential in the middle of an operation, and what then becomes of
// keys that it made. Whoever looks meanwhile is a reader: any request of a creator
// of the project would clear up.

// begun is a create that waits in its middle.
type begun struct {
	id    string
	token string // with which it was asked for
	held  held
}

// beginCreate asks for a server and stops the create before its disks are made,
// when its keys exist.
func (c *testCloud) beginCreate(t *testing.T, f flavorSpec) begun {
	t.Helper()
	b, of := begun{held: c.hold(t, "disk.Create@before")}, c.flavor(t, f)
	owner, err := c.login("-demo") // its token may be revoked
	require.NoError(t, err)
	client := owner.compute(t)
	b.token = client.Token()
	s, err := servers.Create(t.Context(), client, servers.CreateOpts{
		Name: "credential", FlavorRef: of, ImageRef: c.image, Networks: "none",
	}, nil).Extract()
	require.NoError(t, err)
	require.Equal(t, b.token, client.Token())
	b.id = s.ID
	t.Cleanup(func() { c.remove(t, b.id) })
	await.For(t, "the create is in its middle", func() bool {
		if b.held.reached() {
			return true
		}
		s, err := servers.Get(t.Context(), client, b.id).Extract()
		require.NoError(t, err)
		require.NotEmpty(t, s.TaskState, "it ended before its middle, as %s: %s", s.Status, s.Fault.Message)
		return false
	}, c.progress(b.id))
	return b
}

// remove deletes a server that may be gone already.
func (c *testCloud) remove(t *testing.T, id string) {
	t.Helper()
	_ = servers.Delete(context.Background(), c.compute(t, "-demo"), id).ExtractErr() // the test's own context has ended
	c.gone(t, id)
}

// revoke ends the token of a create, as a logout does, until every service knows of that.
func (c *testCloud) revoke(t *testing.T, b begun) {
	t.Helper()
	identity := c.service(t, "", openstack.NewIdentityV3)
	require.NoError(t, tokens.Revoke(t.Context(), identity, b.token).Err)
	require.False(t, c.accepted(t, b.token))
	await.Quiet(t, cloud.TestTokenCache, "services may take what they have kept for as long")
}

// accepted reports whether the identity service accepts a token.
func (c *testCloud) accepted(t *testing.T, token string) bool {
	t.Helper()
	ok, err := tokens.Validate(t.Context(), c.service(t, "", openstack.NewIdentityV3), token)
	require.NoError(t, err)
	return ok
}

// keysWait requires that the audit finds keys of a server that wait for a
// credential, and nothing else.
func (c *testCloud) keysWait(t *testing.T, id string, keys int) {
	t.Helper()
	found := c.audit(t).Findings
	require.Len(t, found, keys)
	for _, f := range found {
		require.Equal(t, compute.Waiting, f.What)
		require.Equal(t, compute.ThingKeySecret, f.Kind)
		require.Equal(t, "server "+id, f.Owner)
		require.NotEmpty(t, f.Why)
	}
}

// clearedBy requires that what waits goes after something is done.
func (c *testCloud) clearedBy(t *testing.T, done func()) {
	t.Helper()
	require.NotEmpty(t, c.audit(t).Findings)
	done()
	c.nothingIsLeftInTime(t)
}

// nothingIsLeftInTime gives the reaper time to remove what waited.
func (c *testCloud) nothingIsLeftInTime(t *testing.T) {
	t.Helper()
	var left []compute.Finding
	await.For(t, "what waits goes", func() bool {
		left = c.audit(t).Findings
		return len(left) == 0
	}, findings(&left))
	c.nothingIsLeft(t)
}

// findings tells what an audit found last.
func findings(last *[]compute.Finding) await.Witness {
	return await.Witness{Name: "findings", Look: func() (names string) {
		for _, f := range *last {
			names += fmt.Sprintf("%s %s, ", f.What, f.Name)
		}
		return names
	}}
}

// A token that expires in the middle of a create does not fail it.
func TestTokenExpiresInTheMiddle(t *testing.T) {
	backends(t, openStack)
	c := ownCloud(t)
	b := c.beginCreate(t, encryptedTIS)
	await.For(t, "the token ends", func() bool { return !c.accepted(t, b.token) })
	b.held.release()
	require.Equal(t, "ACTIVE", c.settledAs(t, "-reader", b.id).Status)
	c.console(t, b.id, "TG ready", 1)
}

// A token that is revoked in the middle of a create fails it, and says why. Its
// keys wait until somebody of the project who may remove them comes by.
func TestTokenRevokedInTheMiddle(t *testing.T) {
	backends(t, openStack)
	t.Parallel()
	for name, clear := range map[string]func(t *testing.T, c *testCloud){
		"the next request of a creator clears up": func(t *testing.T, c *testCloud) {
			listed(t, c.compute(t, "-demo2"), servers.ListOpts{})
		},
		"strongroom's own role in the domain clears up": grantOnDomain,
	} {
		t.Run(name, func(t *testing.T) {
			c := ownCloud(t)
			b := c.beginCreate(t, encryptedTIS)
			require.Len(t, c.secrets(t, "-demo"), 2, "a disk and a TPM")
			c.revoke(t, b)
			b.held.release()
			s := c.settledAs(t, "-reader", b.id)
			require.Equal(t, "ERROR", s.Status)
			// A key manager refuses it (401), or Keystone knows it no more.
			require.Regexp(t, "401|the token has ended", s.Fault.Message)
			c.keysWait(t, b.id, 2)
			require.Len(t, c.secrets(t, "-demo"), 2, "they are still there")
			c.clearedBy(t, func() { clear(t, c) })
			require.Empty(t, c.secrets(t, "-demo"))
		})
	}
}

// Where the owner delegated the TPM's key alone, the create fails all the same, for
// its disks need the token; the trust clears up at once, and goes itself.
func TestTokenRevokedInTheMiddleWithATrust(t *testing.T) {
	backends(t, openStack)
	c := ownCloud(t)
	b := c.beginCreate(t, delegatedTPM)
	require.Len(t, c.trusts(t, "-demo"), 1)
	require.Len(t, c.secrets(t, "-demo"), 2, "a disk and a TPM")
	c.revoke(t, b)
	b.held.release()
	s := c.settledAs(t, "-reader", b.id)
	require.Equal(t, "ERROR", s.Status)
	c.nothingIsLeft(t)
	require.Empty(t, c.secrets(t, "-demo"))
	require.Empty(t, c.trusts(t, "-demo"))
}

// grantOnDomain gives strongroom's own user the role creator in every project.
func grantOnDomain(t *testing.T, c *testCloud) {
	t.Helper()
	identity := c.service(t, "", openstack.NewIdentityV3)
	user, _ := cloudtest.Who(t, c.service(t, "-strongroom", openstack.NewIdentityV3).ProviderClient)
	pages, err := roles.List(identity, roles.ListOpts{Name: "creator"}).AllPages(t.Context())
	require.NoError(t, err)
	found, err := roles.ExtractRoles(pages)
	require.NoError(t, err)
	require.Len(t, found, 1)
	url := identity.ServiceURL("OS-INHERIT", "domains", "default", "users", user, "roles", found[0].ID, "inherited_to_projects")
	granted, err := identity.Put(t.Context(), url, nil, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusNoContent}})
	require.NoError(t, err)
	require.NoError(t, granted.Body.Close())
	t.Cleanup(func() {
		taken, err := identity.Delete(context.Background(), url, nil)
		require.NoError(t, err)
		require.NoError(t, taken.Body.Close())
	})
}
