package neutron_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/quotas"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"strongroom/activities/port"
	"strongroom/activities/port/neutron"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

// Users make, change and remove groups. Another project sees none of that, an administrator all of it.
func TestUsersMakeSecurityGroups(t *testing.T) {
	t.Parallel()
	b := open(t)
	s, ctx := b.Service.(*neutron.Service), t.Context()
	refused := func(kind compute.Kind, text string, err error) {
		t.Helper()
		require.Equal(t, kind, compute.KindOf(err), "%v", err)
		require.ErrorContains(t, err, text)
	}
	made, err := s.CreateGroup(ctx, b.Owner, " web ", "")
	require.NoError(t, err)
	require.Equal(t, compute.SecurityGroup{ID: made.ID, Name: " web ", ProjectID: b.Owner.ProjectID}, made, "what goes out is not shown")
	changed, err := s.UpdateGroup(ctx, b.Owner, made.ID, "", "of the shop")
	require.NoError(t, err)
	require.Equal(t, compute.SecurityGroup{ID: made.ID, Description: "of the shop", ProjectID: b.Owner.ProjectID}, changed)
	got, err := s.GetGroup(ctx, b.Owner, made.ID)
	require.NoError(t, err)
	require.Equal(t, changed, got)
	all, err := s.ListGroups(ctx, b.Owner, b.Owner.ProjectID)
	require.NoError(t, err)
	require.Len(t, all, 2, "one is the default")
	require.Contains(t, all, got)
	first := all[0]
	if first.ID == made.ID {
		first = all[1]
	}
	require.Equal(t, compute.DefaultGroup, first.Name)
	require.Equal(t, []string{compute.DefaultGroup, b.Owner.ProjectID}, []string{first.Rules[0].Group, first.Rules[0].Project})

	missing := "Security group " + made.ID.String() + " not found."
	_, err = s.GetGroup(ctx, b.Other, made.ID)
	refused(compute.NotFound, missing, err)
	_, err = s.UpdateGroup(ctx, b.Other, made.ID, "theirs", "")
	refused(compute.NotFound, missing, err)
	refused(compute.NotFound, missing, s.DeleteGroup(ctx, b.Other, made.ID))
	all, err = s.ListGroups(ctx, b.Other, b.Owner.ProjectID)
	require.NoError(t, err)
	require.Empty(t, all)
	admin := compute.Credential{ID: uuid.New(), ProjectID: "the administrators'"}
	b.clients[admin.ProjectID] = networkClient(t, cloudtest.Login(t, "admin"))
	all, err = s.ListGroups(ctx, admin, "")
	require.NoError(t, err)
	require.Contains(t, all, got)

	refused(compute.Invalid, "Insufficient rights for removing default security group.", s.DeleteGroup(ctx, b.Owner, first.ID))
	_, err = s.UpdateGroup(ctx, b.Owner, first.ID, "other", "")
	refused(compute.Invalid, "Updating default security group not allowed.", err)
	_, err = s.CreateGroup(ctx, b.Owner, compute.DefaultGroup, "")
	refused(compute.Forbidden, "Default security group already exists.", err)
	user := b.bring(t, b.network(t, 20))
	require.NoError(t, ports.Update(ctx, b.user, user.String(), ports.UpdateOpts{SecurityGroups: &[]string{made.ID.String()}}).Err)
	refused(compute.Invalid, "Security Group "+made.ID.String()+" in use.", s.DeleteGroup(ctx, b.Owner, made.ID))
	require.NoError(t, ports.Update(ctx, b.user, user.String(), ports.UpdateOpts{SecurityGroups: &[]string{}}).Err)
	require.NoError(t, s.DeleteGroup(ctx, b.Owner, made.ID))
	refused(compute.NotFound, missing, s.DeleteGroup(ctx, b.Owner, made.ID))

	most := 1
	require.NoError(t, quotas.Update(ctx, b.clients[admin.ProjectID], b.Owner.ProjectID, quotas.UpdateOpts{SecurityGroup: &most}).Err)
	_, err = s.CreateGroup(ctx, b.Owner, "web", "")
	refused(compute.Forbidden, "Quota exceeded", err)
}

// A conflict that has no name here is what it is in Nova: of what is made a 403, of a delete a 400.
func TestConflictsOfSecurityGroups(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_, err := io.WriteString(w, `{"NeutronError":{"type":"Another","message":"of a plugin","detail":""}}`)
		assert.NoError(t, err)
	}))
	defer server.Close()
	s := &neutron.Service{Clients: logins{"p": {ProviderClient: &gophercloud.ProviderClient{}, Endpoint: server.URL + "/"}}}
	ctx, cred, id := t.Context(), compute.Credential{ProjectID: "p"}, port.GroupID{UUID: uuid.New()}
	_, err := s.CreateGroup(ctx, cred, "web", "")
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	require.EqualError(t, err, "make a security group: the service answered 409 conflict")
	_, err = s.CreateRule(ctx, cred, id, compute.SecurityGroupRule{Protocol: "icmp", Prefix: "10.0.0.0/8"})
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	err = s.DeleteGroup(ctx, cred, id)
	require.Equal(t, compute.Invalid, compute.KindOf(err), "%v", err)
}

// Rules are what they were asked to be, also where a number of theirs is 0 or there is none.
func TestUsersMakeRules(t *testing.T) {
	t.Parallel()
	b := open(t)
	s, ctx := b.Service.(*neutron.Service), t.Context()
	g, err := s.CreateGroup(ctx, b.Owner, "web", "")
	require.NoError(t, err)
	sender, err := s.CreateGroup(ctx, b.Owner, "", "without a name")
	require.NoError(t, err)
	number := func(n int) *int { return &n }
	for _, asked := range []compute.SecurityGroupRule{
		{Protocol: "tcp", From: number(22), To: number(23), Prefix: "0.0.0.0/0"},
		{Protocol: "udp", From: number(1), To: number(65535), Prefix: "2001:db8::/32"},
		{Protocol: "icmp", Prefix: "10.0.0.0/8"},
		{Protocol: "icmp", From: number(8), Prefix: "10.0.0.0/8"},
		{Protocol: "icmp", From: number(0), To: number(0), Prefix: "10.0.0.0/8"},
		{GroupID: &sender.ID},
		{Protocol: "tcp", From: number(80), To: number(80), GroupID: &sender.ID},
	} {
		made, err := s.CreateRule(ctx, b.Owner, g.ID, asked)
		require.NoError(t, err)
		want := asked
		want.ID, want.GroupID = made.ID, nil
		if want.From != nil && *want.From == 1 && want.To != nil && *want.To == 65535 { // all ports are none in particular to Neutron
			want.From, want.To = nil, nil
		}
		require.Equal(t, want, made)
		if asked.GroupID != nil {
			want.Project = b.Owner.ProjectID
		}
		shown, err := s.GetGroup(ctx, b.Owner, g.ID)
		require.NoError(t, err)
		require.Equal(t, []compute.SecurityGroupRule{want}, shown.Rules)
		_, err = s.CreateRule(ctx, b.Owner, g.ID, asked)
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
		require.EqualError(t, err, "Security group rule already exists.")
		id := uuid.MustParse(made.ID)
		require.True(t, compute.Is(s.DeleteRule(ctx, b.Other, id), compute.NotFound))
		require.NoError(t, s.DeleteRule(ctx, b.Owner, id))
		require.EqualError(t, s.DeleteRule(ctx, b.Owner, id), "Security group rule "+made.ID+" not found.")
	}
	// A rule goes with the group that it names.
	_, err = s.CreateRule(ctx, b.Owner, g.ID, compute.SecurityGroupRule{GroupID: &sender.ID})
	require.NoError(t, err)
	require.NoError(t, groups.Delete(ctx, b.user, sender.ID.String()).ExtractErr())
	shown, err := s.GetGroup(ctx, b.Owner, g.ID)
	require.NoError(t, err)
	require.Empty(t, shown.Rules)
	_, err = s.CreateRule(ctx, b.Other, g.ID, compute.SecurityGroupRule{Protocol: "icmp", Prefix: "10.0.0.0/8"})
	require.True(t, compute.Is(err, compute.NotFound), "%v", err)
	_, err = s.CreateRule(ctx, b.Owner, port.GroupID{UUID: uuid.New()}, compute.SecurityGroupRule{Protocol: "icmp", Prefix: "10.0.0.0/8"})
	require.True(t, compute.Is(err, compute.NotFound), "%v", err)
}
