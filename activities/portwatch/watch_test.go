package portwatch_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/port"
	"strongroom/activities/portwatch"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// service has one port of each server that it is asked for.
type service struct {
	port.None
	id     port.ID
	status string
	fails  error
	during func() // happens while it is asked
}

func (s *service) Attached(context.Context, compute.Credential, compute.ServerID) ([]port.Port, error) {
	if s.during != nil {
		s.during()
	}
	return []port.Port{{ID: s.id, Status: s.status, MAC: "fa:16:3e:00:00:01"}}, s.fails
}

// A change that the network service told of while an operation was at work is looked at once it is over, however often that fails.
func TestChangesThatWereTold(t *testing.T) {
	t.Parallel()
	f := schematest.NewFixture(t)
	s := &service{id: port.ID{UUID: uuid.New()}, status: port.StatusActive}
	w := &portwatch.Watch{Pool: f.DB, Service: s}
	server := f.Server(compute.OpCreate).ServerID
	q := schema.New(f.DB)
	had := []compute.Network{{UUID: uuid.NewString(), Port: &compute.Port{ID: &s.id, Status: port.StatusDown}}}
	require.NoError(t, q.SetServerNetworks(t.Context(), schema.SetServerNetworksParams{ID: server, Networks: had}))
	tell := func() {
		t.Helper()
		_, err := q.TellNetworkChange(t.Context(), server)
		require.NoError(t, err)
	}
	is := func(status string, changes int32) {
		t.Helper()
		row, err := q.GetServer(t.Context(), server)
		require.NoError(t, err)
		require.Equal(t, status, row.Networks[0].Port.Status)
		require.Equal(t, changes, row.NetworkChanges)
	}
	tell()
	tell()
	require.NoError(t, w.Pass(t.Context()))
	is(port.StatusDown, 2)
	f.Exec(`UPDATE servers SET current_operation = ''`)
	s.fails = compute.Errorf(compute.Unavailable, "away")
	require.ErrorIs(t, w.Pass(t.Context()), s.fails)
	is(port.StatusDown, 2)
	s.fails = nil
	require.NoError(t, w.Pass(t.Context()))
	is(port.StatusActive, 0)

	// One that is told meanwhile is another one.
	tell()
	s.during = func() { tell() }
	require.NoError(t, w.Pass(t.Context()))
	is(port.StatusActive, 2)
	s.during = nil
	require.NoError(t, w.Pass(t.Context()))
	is(port.StatusActive, 0)

	// An operation that began meanwhile knows better.
	tell()
	s.status, s.during = port.StatusDown, func() { f.Exec(`UPDATE servers SET current_operation = 'req-x'`) }
	require.NoError(t, w.Pass(t.Context()))
	is(port.StatusActive, 1)
}
