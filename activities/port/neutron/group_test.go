package neutron_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/rbacpolicies"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/stretchr/testify/require"

	"strongroom/activities/port"
	"strongroom/activities/port/neutron"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

// All of a server's ports get a security group, and lose it.
func TestSecurityGroupsOfAServersPorts(t *testing.T) {
	t.Parallel()
	b := open(t)
	s, ctx := b.Service.(*neutron.Service), t.Context()
	network := b.network(t, 20)
	server, op := compute.ServerID{UUID: uuid.New()}, compute.OperationID("req-"+uuid.NewString())
	web, err := groups.Create(ctx, b.user, groups.CreateOpts{Name: "web", Description: "of the shop"}).Extract()
	require.NoError(t, err)
	_, err = rules.Create(ctx, b.user, rules.CreateOpts{
		Direction: rules.DirIngress, EtherType: rules.EtherType4, SecGroupID: web.ID, Protocol: rules.ProtocolTCP, PortRangeMin: 80, PortRangeMax: 81,
	}).Extract()
	require.NoError(t, err)
	err = s.AddGroup(ctx, b.Owner, server, "web")
	require.True(t, compute.Is(err, compute.NotFound), "%v", err)
	require.ErrorContains(t, err, "could not be found as device id on any ports")
	var made []port.ID
	for _, label := range []string{"one", "two"} {
		p, err := s.Ensure(ctx, port.EnsureInput{Credential: b.Owner, Name: compute.PortName(op, label), Server: server, Network: network})
		require.NoError(t, err)
		made = append(made, p.ID)
		t.Cleanup(func() {
			require.NoError(t, s.Remove(context.Background(), port.RemoveInput{Credential: b.Owner, Name: compute.PortName(op, label)}))
		})
	}
	named := func(name string) (out compute.SecurityGroup) {
		t.Helper()
		all, err := s.ServerGroups(ctx, b.Owner, b.Owner.ProjectID, server)
		require.NoError(t, err)
		for _, g := range all {
			if g.Name == name {
				out = g
			}
		}
		return out
	}
	require.ElementsMatch(t, made, named("default").Ports)
	require.NotEmpty(t, named("default").Rules)
	require.Empty(t, named("web").Ports)
	for range 2 {
		require.NoError(t, s.AddGroup(ctx, b.Owner, server, "web"))
	}
	got := named("web")
	require.ElementsMatch(t, made, got.Ports)
	require.Equal(t, []string{web.ID, "of the shop", b.Owner.ProjectID}, []string{got.ID.String(), got.Description, got.ProjectID})
	require.Len(t, got.Rules, 1)
	from, to := 80, 81
	require.Equal(t, compute.SecurityGroupRule{ID: got.Rules[0].ID, Protocol: "tcp", From: &from, To: &to}, got.Rules[0])
	require.NoError(t, s.RemoveGroup(ctx, b.Owner, server, web.ID))
	require.Empty(t, named("web").Ports)
	err = s.RemoveGroup(ctx, b.Owner, server, "web")
	require.True(t, compute.Is(err, compute.NotFound), "%v", err)
	require.ErrorContains(t, err, "not associated with the instance")
	err = s.AddGroup(ctx, b.Owner, server, "none")
	require.True(t, compute.Is(err, compute.NotFound), "%v", err)
	require.ErrorContains(t, err, "Security group none is not found for project")
	all, err := s.ServerGroups(ctx, b.Other, b.Owner.ProjectID, server)
	require.NoError(t, err)
	require.Empty(t, all, "they are another project's")

	// An administrator sees them with a token of his own project.
	admin := compute.Credential{ID: uuid.New(), ProjectID: "the administrators'"}
	b.clients[admin.ProjectID] = networkClient(t, cloudtest.Login(t, "admin"))
	all, err = s.ServerGroups(ctx, admin, b.Owner.ProjectID, server)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.ElementsMatch(t, made, all[0].Ports)
	require.Equal(t, b.Owner.ProjectID, all[0].ProjectID)
	require.True(t, slices.ContainsFunc(all[0].Rules, func(r compute.SecurityGroupRule) bool {
		return r.Group == compute.DefaultGroup && r.Project == b.Owner.ProjectID
	}), "%+v", all[0].Rules)
	all, err = s.ServerGroups(ctx, admin, b.Other.ProjectID, server)
	require.NoError(t, err)
	require.Empty(t, all, "who claims another project's server for a port of his own is not believed")
}

// A group that another project shares is asked for by its id, and shown.
func TestASharedSecurityGroup(t *testing.T) {
	t.Parallel()
	b := open(t)
	s, ctx := b.Service.(*neutron.Service), t.Context()
	stranger := b.clients[b.Other.ProjectID]
	lent, err := groups.Create(ctx, stranger, groups.CreateOpts{Name: "lent"}).Extract()
	require.NoError(t, err)
	_, err = s.Groups(ctx, b.Owner, []string{lent.ID})
	require.True(t, compute.Is(err, compute.NotFound), "%v", err)
	require.NoError(t, rbacpolicies.Create(ctx, stranger, rbacpolicies.CreateOpts{
		Action: rbacpolicies.ActionAccessShared, ObjectType: "security_group", ObjectID: lent.ID, TargetTenant: b.Owner.ProjectID,
	}).Err)
	_, err = s.Groups(ctx, b.Owner, []string{"lent"})
	require.True(t, compute.Is(err, compute.NotFound), "names are the project's own: %v", err)
	found, err := s.Groups(ctx, b.Owner, []string{"default", lent.ID})
	require.NoError(t, err)
	require.Equal(t, lent.ID, found[1].String())

	server, name := compute.ServerID{UUID: uuid.New()}, compute.PortName(compute.OperationID("req-"+uuid.NewString()), "one")
	made, err := s.Ensure(ctx, port.EnsureInput{Credential: b.Owner, Name: name, Server: server, Network: b.network(t, 20), Groups: found})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Remove(context.Background(), port.RemoveInput{Credential: b.Owner, Name: name}))
	})
	all, err := s.ServerGroups(ctx, b.Owner, b.Owner.ProjectID, server)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, []string{"lent", b.Other.ProjectID}, []string{all[1].Name, all[1].ProjectID})
	require.Equal(t, []port.ID{made.ID}, all[1].Ports)
}
