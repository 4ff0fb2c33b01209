package barbican_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/acls"
	"github.com/stretchr/testify/require"

	"strongroom/activities/key"
	"strongroom/activities/key/barbican"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

// person is a user of one project.
type person struct {
	*barbican.Manager
	cred   compute.Credential
	client *gophercloud.ServiceClient
}

func login(t *testing.T, project cloudtest.Project, roles ...string) person {
	t.Helper()
	m, cred, client := manager(t, project, roles...)
	return person{m, cred, client}
}

func (p person) reads(t *testing.T, id compute.SecretID) bool {
	t.Helper()
	value, err := p.Passphrase(t.Context(), p.cred, id)
	if compute.Is(err, compute.Forbidden) {
		require.ErrorContains(t, err, "read secret "+id.String())
		require.ErrorContains(t, err, "usually creator")
		require.Contains(t, compute.Public(err), "its owner can add the user to its ACL")
		return false
	}
	require.NoError(t, err)
	value.Wipe()
	return true
}

// keeps makes a secret private to its owner and the named users.
func (p person) keeps(t *testing.T, id compute.SecretID, with ...string) {
	t.Helper()
	no := false
	require.NoError(t, acls.SetSecretACL(t.Context(), p.client, id.String(), acls.SetOpts{{Type: "read", ProjectAccess: &no, Users: &with}}).Err)
}

// EE-37, EE-38, EE-39, TPM-40: a copy of a secret, and one that takes its place, is read by those who read
// the secret: the project's users where it is theirs, its owner and the users of its ACL
// where it is private, whoever makes the copy. What an ACL gives to a user of another project is
// his project's when he has a copy of it there.
func TestEE38WhatIsMadeOfAPrivateSecretIsPrivate(t *testing.T) {
	t.Parallel()
	project := cloudtest.NewProject(t)
	owner, friend, other := login(t, project), login(t, project), login(t, project)
	admin := login(t, project, "admin")
	elsewhere := cloudtest.NewProject(t)
	guest, neighbour := login(t, elsewhere), login(t, elsewhere)

	in := input(owner.cred)
	source, err := owner.Create(t.Context(), in)
	require.NoError(t, err)
	remove := func(p person, name string) {
		t.Cleanup(func() { _ = p.Delete(context.Background(), key.DeleteInput{Credential: p.cred, Name: name}) })
	}
	remove(admin, in.Name)
	copyBy := func(p person) (compute.SecretID, error) {
		in := key.CopyInput{
			Credential: p.cred, FromCredential: p.cred, From: source, ID: compute.SecretID{UUID: uuid.New()}, Name: "test copy " + uuid.NewString(),
		}
		remove(p, in.Name)
		return p.Copy(t.Context(), in)
	}
	like := func(p person) compute.SecretID {
		in := input(p.cred)
		in.Like = &source
		remove(p, in.Name)
		id, err := p.Create(t.Context(), in)
		require.NoError(t, err)
		return id
	}

	shared, err := copyBy(other)
	require.NoError(t, err)
	for _, id := range []compute.SecretID{source, shared, like(owner)} {
		require.True(t, friend.reads(t, id), "members share")
	}
	_, err = copyBy(guest)
	require.True(t, compute.Is(err, compute.Forbidden), "%v", err)

	owner.keeps(t, source, friend.cred.UserID, guest.cred.UserID)
	require.False(t, other.reads(t, source))
	_, err = copyBy(other)
	require.True(t, compute.Is(err, compute.Forbidden), "%v", err)
	for _, maker := range []person{owner, friend, admin} {
		copied, err := copyBy(maker)
		require.NoError(t, err)
		for _, id := range []compute.SecretID{copied, like(maker)} {
			require.True(t, owner.reads(t, id), "it is the owner's")
			require.True(t, friend.reads(t, id), "he is on the ACL")
			require.True(t, maker.reads(t, id))
			require.False(t, other.reads(t, id))
		}
	}
	theirs, err := copyBy(guest)
	require.NoError(t, err)
	require.True(t, neighbour.reads(t, theirs))
	require.False(t, neighbour.reads(t, source))
}
