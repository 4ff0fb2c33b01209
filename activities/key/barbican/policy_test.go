package barbican_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/acls"
	"github.com/stretchr/testify/require"

	"strongroom/activities/key"
	"strongroom/activities/key/barbican"
	"strongroom/compute"
	"strongroom/deploy/cloud"
	"strongroom/deploy/cloud/cloudtest"
)

// newDefaults starts a Barbican with the policies of its newer releases. It gives a login to it.
func newDefaults(t *testing.T) (login func(user string) person) {
	t.Helper()
	cloudtest.Open(t) // where there is a cloud, there are the packages
	dir, err := os.MkdirTemp("/tmp", "sr-kp-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := cloud.Start(ctx, cloud.Config{Dir: dir, Services: []string{"keystone", "barbican"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop(context.Background())) })
	require.NoError(t, c.SetBarbicanPolicy(cloud.NewDefaults))
	return func(user string) person {
		options, _, _, err := clouds.Parse(clouds.WithLocations(c.CloudsFile()), clouds.WithCloudName(user))
		require.NoError(t, err)
		provider, err := config.NewProviderClient(t.Context(), options)
		require.NoError(t, err)
		l := logins{}
		cred := l.add(t, provider)
		return person{&barbican.Manager{Clients: l}, cred, l[cred.ProjectID]}
	}
}

// readersOf gives who may read a secret, as its project's administrator sees it.
func readersOf(t *testing.T, admin person, id compute.SecretID) acls.ACLDetails {
	t.Helper()
	acl, err := acls.GetSecretACL(t.Context(), admin.client, id.String()).Extract()
	require.NoError(t, err)
	return (*acl)["read"]
}

// EE-37, EE-38, EE-39: where Barbican does not show a secret's ACL to whoever may read it, as its new
// default policies have it, what is made of a private secret is private all the same, what is
// made of the project's secret the project's, and a user's copy of another project's secret
// his project's.
func TestEE38WhatIsMadeOfAPrivateSecretIsPrivateWhereItsACLIsHidden(t *testing.T) {
	t.Parallel()
	login := newDefaults(t)
	owner, friend, admin, guest := login("demo"), login("demo2"), login("admin-demo"), login("alt")
	in := input(owner.cred)
	source, err := owner.Create(t.Context(), in)
	require.NoError(t, err)
	copyBy := func(p person) compute.SecretID {
		id, err := p.Copy(t.Context(), key.CopyInput{
			Credential: p.cred, FromCredential: p.cred, From: source, ID: compute.SecretID{UUID: uuid.New()}, Name: "test copy " + uuid.NewString(),
		})
		require.NoError(t, err)
		return id
	}
	like := func(p person) compute.SecretID {
		in := input(p.cred)
		in.Like = &source
		id, err := p.Create(t.Context(), in)
		require.NoError(t, err)
		return id
	}
	hidden := func() {
		t.Helper()
		err := acls.GetSecretACL(t.Context(), friend.client, source.String()).Err
		require.True(t, gophercloud.ResponseCodeIs(err, 403), "%v", err)
	}

	hidden()
	for _, maker := range []person{owner, friend} {
		for _, id := range []compute.SecretID{copyBy(maker), like(maker)} {
			require.True(t, readersOf(t, admin, id).ProjectAccess, "members share")
		}
	}

	owner.keeps(t, source, friend.cred.UserID, guest.cred.UserID)
	hidden()
	for _, maker := range []person{owner, friend, admin} {
		for _, id := range []compute.SecretID{copyBy(maker), like(maker)} {
			read := readersOf(t, admin, id)
			require.False(t, read.ProjectAccess)
			require.Contains(t, read.Users, owner.cred.UserID)
			if maker.cred.UserID == friend.cred.UserID {
				require.ElementsMatch(t, []string{owner.cred.UserID, friend.cred.UserID}, read.Users, "who else reads it is not told")
			} else {
				require.ElementsMatch(t, []string{owner.cred.UserID, friend.cred.UserID, guest.cred.UserID}, read.Users)
			}
		}
	}
	theirs := copyBy(guest)
	require.True(t, readersOf(t, login("admin-alt"), theirs).ProjectAccess)
}

// EE-40: the key that takes the place of one that somebody deleted is the project's, but for one that was
// asked to be private.
func TestACLOfASecretThatIsGone(t *testing.T) {
	t.Parallel()
	project := cloudtest.NewProject(t)
	owner := login(t, project)
	gone := compute.SecretID{UUID: uuid.New()}
	in := input(owner.cred)
	in.Like = &gone
	t.Cleanup(func() { _ = owner.Delete(context.Background(), key.DeleteInput{Credential: owner.cred, Name: in.Name}) })
	id, err := owner.Create(t.Context(), in)
	require.NoError(t, err)
	require.True(t, readersOf(t, owner, id).ProjectAccess)

	in.Name, in.Private = "test "+uuid.NewString(), true
	id, err = owner.Create(t.Context(), in)
	require.NoError(t, err)
	require.False(t, readersOf(t, owner, id).ProjectAccess)
	require.False(t, login(t, project).reads(t, id))
	require.True(t, owner.reads(t, id))
}
