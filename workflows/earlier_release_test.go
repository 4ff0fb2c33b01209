package workflows_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"strongroom/activities/disk"
	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
)

// earlier is a worker of an earlier release, which lacks some activities.
type earlier struct {
	registry
	lacks []string
}

// RegisterActivityWithOptions implements durable.Registry.
func (e earlier) RegisterActivityWithOptions(do any, o activity.RegisterOptions) {
	if !slices.Contains(e.lacks, o.Name) {
		e.registry.RegisterActivityWithOptions(do, o)
	}
}

// EE-41: what a host's worker of an earlier release does not know is refused at once, while the guest runs on; a move that names no
// host goes on to one that knows it. What that worker knows it does as before.
func TestEE41AHostOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, s *serverBench, was compute.Server, kind compute.OperationKind, arguments any, unknown string) {
		t.Helper()
		action, err := compute.ActionOf(kind)
		require.NoError(t, err)
		_, err = s.play(kind, action.Transition.Task, arguments, "")
		require.ErrorContains(t, err, "another release, which does not know "+unknown)
		require.Equal(t, compute.NoHost, durable.FromTemporal(err).Kind)
		s.requireUntouched(was)
	}
	t.Run("a server comes", func(t *testing.T) {
		t.Parallel()
		b := spawned(t)
		older, third := b.hosts[1], compute.HostID{UUID: uuid.New()}
		b.hosts = append(b.hosts, third)
		b.lacks = map[compute.HostID][]string{older: {disk.CheckRoom.Name}}
		s, was := b.onServer(temporaltest.Client(t), b.hosts), b.row.server
		refused(t, s, was, compute.OpMigrate, compute.MigrateArguments{Host: &older}, disk.CheckRoom.Name)
		refused(t, s, was, compute.OpLiveMigrate, compute.LiveMigrateArguments{Host: &older}, disk.CheckRoom.Name)
		_, err := s.play(compute.OpMigrate, compute.TaskResizePrep, compute.MigrateArguments{}, "")
		require.NoError(t, err)
		require.Equal(t, third, *s.row.server.Host)
		require.Empty(t, s.audit())
	})
	t.Run("a server leaves", func(t *testing.T) {
		t.Parallel()
		b := spawned(t)
		b.lacks = map[compute.HostID][]string{b.hosts[0]: {disk.CheckMove.Name, disk.CheckExport.Name}}
		s, was := b.onServer(temporaltest.Client(t), b.hosts), b.row.server
		refused(t, s, was, compute.OpMigrate, compute.MigrateArguments{}, disk.CheckMove.Name)
		refused(t, s, was, compute.OpShelve, compute.ShelveArguments{}, disk.CheckExport.Name)
	})
	t.Run("a server lives there", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, true)
		b.hosts = b.hosts[:1]
		b.lacks = map[compute.HostID][]string{b.hosts[0]: {disk.CheckRoom.Name, disk.CheckMove.Name, disk.CheckExport.Name}}
		s := b.onServer(temporaltest.Client(t), b.hosts)
		for _, kind := range []compute.OperationKind{compute.OpCreate, compute.OpStop, compute.OpStart} {
			task := compute.TaskScheduling
			if kind != compute.OpCreate {
				action, err := compute.ActionOf(kind)
				require.NoError(t, err)
				task = action.Transition.Task
			}
			in, err := s.play(kind, task, nil, "")
			require.NoError(t, err)
			s.whole(in, kind)
		}
		in, err := s.play(compute.OpDelete, compute.TaskDeleting, nil, "")
		require.NoError(t, err)
		s.gone(in)
	})
}
