package share_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/share"
	"strongroom/compute"
)

func TestGranteesAreComparedByWhatTheyMean(t *testing.T) {
	t.Parallel()
	address := func(name string) share.Grantee { return share.Grantee{Kind: share.Address, Name: name} }
	user := func(name string) share.Grantee { return share.Grantee{Kind: share.CephUser, Name: name} }
	for _, tc := range []struct {
		one, two share.Grantee
		same     bool
	}{
		{address("192.0.2.1"), address("192.0.2.1"), true},
		{address("192.0.2.1"), address("192.0.2.1/32"), true},
		{address("192.0.2.1"), address("192.0.2.10"), false},
		{address("192.0.2.1/24"), address("192.0.2.0/24"), true},
		{address("2001:db8::1"), address("2001:0db8:0:0::1"), true},
		{address("nonsense"), address("nonsense"), false},
		{user("a"), user("a"), true},
		{user("a"), user("A"), false},
		{user("192.0.2.1"), address("192.0.2.1"), false},
	} {
		require.Equal(t, tc.same, tc.one.Is(tc.two), "%v %v", tc.one, tc.two)
		require.Equal(t, tc.same, tc.two.Is(tc.one), "%v %v", tc.one, tc.two)
	}
}

// The user of a host and a share is always the same, and nobody else's.
func TestUserOf(t *testing.T) {
	t.Parallel()
	host, other := compute.HostID{UUID: uuid.New()}, compute.HostID{UUID: uuid.New()}
	id, another := share.ID{UUID: uuid.New()}, share.ID{UUID: uuid.New()}
	user := share.UserOf(host, id)
	require.Equal(t, user, share.UserOf(host, id))
	require.NotEqual(t, user, share.UserOf(other, id))
	require.NotEqual(t, user, share.UserOf(host, another))
	require.NoError(t, share.AllowInput{Server: compute.ServerID{UUID: uuid.New()}, To: user, Level: share.ReadWrite}.Check())
}

func TestWhatCanBeMounted(t *testing.T) {
	t.Parallel()
	s := share.Share{ID: share.ID{UUID: uuid.MustParse("6dd2d5ce-d469-4235-b10a-25d1e983aefd")}, Protocol: share.NFS, Status: share.StatusAvailable}
	require.NoError(t, s.Check())
	s.Protocol = share.CephFS
	require.NoError(t, s.Check())
	s.Status = "deleting"
	require.EqualError(t, s.Check(), "Share 6dd2d5ce-d469-4235-b10a-25d1e983aefd is in 'deleting' instead of 'available' status.")
	require.Equal(t, compute.Conflict, compute.KindOf(s.Check()))
	s.Protocol = "GLUSTERFS"
	require.EqualError(t, s.Check(), "Share protocol GLUSTERFS is not supported.")
	require.Equal(t, compute.Conflict, compute.KindOf(s.Check()))
}

// Inputs are read by people in Temporal's history: their names stay.
func TestInputsAsTheyAreStored(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("6dd2d5ce-d469-4235-b10a-25d1e983aefd")
	in := share.DenyInput{
		Share: share.ID{UUID: id}, Server: compute.ServerID{UUID: id}, Rule: &share.RuleID{UUID: id},
		To: &share.Grantee{Kind: share.Address, Name: "192.0.2.1"},
	}
	text, err := json.Marshal(in)
	require.NoError(t, err)
	require.JSONEq(t, `{"credential": {"id": "00000000-0000-0000-0000-000000000000", "project_id": "", "user_id": ""},
		"share_id": "6dd2d5ce-d469-4235-b10a-25d1e983aefd", "server_id": "6dd2d5ce-d469-4235-b10a-25d1e983aefd",
		"to": {"kind": "ip", "name": "192.0.2.1"}, "rule_id": "6dd2d5ce-d469-4235-b10a-25d1e983aefd"}`, string(text))
}
