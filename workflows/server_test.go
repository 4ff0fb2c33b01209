package workflows_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/drain"
	"strongroom/activities/image"
	opact "strongroom/activities/operation"
	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
	"strongroom/workflows"
)

// recordVariable asks the tests on a server to keep the histories of their operations, for
// the release that it names. `./task history:record` sets it.
const recordVariable = "STRONGROOM_RECORD_HISTORY"

// serverBench is a bench whose operations run on a real Temporal server, by workers
// like the real ones: one queue for each place.
type serverBench struct {
	*bench
	client  client.Client
	starter durable.Starter
}

// newServerBench has workers for the first hosts of a new bench.
func newServerBench(t *testing.T, c client.Client, hosts int) *serverBench {
	t.Helper()
	b := newBench(t, true)
	return b.onServer(c, b.hosts[:hosts])
}

// onServer puts a world, whatever happened in it, on a real server, and serves hosts of it.
func (b *bench) onServer(c client.Client, hosts []compute.HostID) *serverBench {
	t := b.t
	t.Helper()
	s := &serverBench{bench: b, client: c, starter: durable.Starter{Client: c}}
	s.cancelRunning = func(ctx context.Context, server compute.ServerID) error {
		ended, err := s.starter.Cancel(ctx, server)
		if err == nil && !ended {
			err = compute.Errorf(compute.Unavailable, "it has not ended")
		}
		return err
	}
	control := s.worker(durable.ControlQueue)
	workflows.Register(control)
	s.registerRecord(control)
	s.registerAudit(control)
	s.registerMoves(control)
	s.registerLive(control)
	workers := []worker.Worker{control, s.worker(durable.CloudQueue)}
	s.registerCloud(workers[1])
	s.registerSeen(workers[1])
	s.registerImages(workers[1])
	s.registerShelved(workers[1])
	s.registerPorts(workers[1])
	for _, h := range hosts {
		for _, queue := range []string{durable.HostQueue(h), durable.HostBulkQueue(h), durable.HostStateQueue(h)} {
			w := s.worker(queue)
			durable.RefuseUnknown(w)
			r := earlier{w, b.lacks[h]}
			s.registerHost(r)
			s.registerSeen(r)
			s.registerImages(r)
			s.registerRotation(r)
			s.registerShelved(r)
			s.registerMoves(r)
			s.registerLive(r)
			workers = append(workers, w)
		}
	}
	for _, w := range workers {
		require.NoError(t, w.Start())
		t.Cleanup(w.Stop)
	}
	return s
}

func (s *serverBench) worker(queue string) worker.Worker {
	return worker.New(s.client, queue, worker.Options{
		DisableRegistrationAliasing: true, Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}},
		DefaultHeartbeatThrottleInterval: durable.HeartbeatTimeout / 4, MaxHeartbeatThrottleInterval: durable.HeartbeatTimeout / 4,
	})
}

// start starts an operation's workflow as the API does.
func (s *serverBench) start(in durable.OperationInput) {
	s.t.Helper()
	require.NoError(s.t, s.starter.Start(s.t.Context(), *s.operations[in.Operation]))
}

// ended waits for an operation's end and replays its history; if histories are
// to be kept, it is kept under the name.
func (s *serverBench) ended(in durable.OperationInput, name string) error {
	s.t.Helper()
	id := durable.WorkflowID(compute.ServerOwner(in.Server), s.operations[in.Operation].Kind)
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	err := s.client.GetWorkflow(ctx, id, "").Get(ctx, nil)
	require.NoError(s.t, ctx.Err(), "it never ended")
	s.replays(ctx, id, "", name)
	return err
}

// replays replays the history of a run that has ended; if histories are to be kept, it is
// kept under the name.
func (s *serverBench) replays(ctx context.Context, id, run, name string) {
	s.t.Helper()
	history := &historypb.History{}
	events := s.client.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(s.t, err)
		history.Events = append(history.Events, event)
	}
	require.NoError(s.t, replayer(s.t).ReplayWorkflowHistory(nil, history))
	if release := os.Getenv(recordVariable); release != "" && name != "" {
		keep(s.t, history, filepath.Join("testdata", "history", release, name+".json"))
	}
}

// janitor has the janitor remove what waits, and replays that. It goes over to a new version
// at any moment, so its history is kept as those of operations are.
func (s *serverBench) janitor(name string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	run, err := s.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: durable.ControlQueue}, workflows.JanitorName)
	require.NoError(s.t, err)
	first := run.GetRunID() // before Get, which follows it
	err = run.GetWithOptions(ctx, nil, client.WorkflowRunGetOptions{DisableFollowingRuns: true})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(s.t, err, &next)
	require.NoError(s.t, s.client.TerminateWorkflow(ctx, run.GetID(), "", "the test has seen enough"))
	s.replays(ctx, run.GetID(), first, name)
}

// keep writes a history, without the name of the machine that it ran on.
func keep(t *testing.T, history *historypb.History, file string) {
	t.Helper()
	text, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(history)
	require.NoError(t, err)
	machine, err := os.Hostname()
	require.NoError(t, err)
	process := regexp.MustCompile(`"([0-9]+@)?` + regexp.QuoteMeta(machine) + `[@:][^"]*"|"[0-9]+@` + regexp.QuoteMeta(machine) + `"`)
	text = process.ReplaceAll(text, []byte(`"recorder"`))
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, append(text, '\n'), 0o644))
}

// play runs an operation from its request to its end.
func (s *serverBench) play(kind compute.OperationKind, task compute.TaskState, arguments any, name string) (durable.OperationInput, error) {
	s.t.Helper()
	in := s.accept(kind, task, arguments)
	s.start(in)
	return in, s.ended(in, name)
}

// recorded waits for the record of an operation's image as the API does, and gives why
// there is none.
func (s *serverBench) recorded(in durable.OperationInput) *compute.Error {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	failure, err := s.starter.ImageRecord(ctx, *s.operations[in.Operation])
	require.NoError(s.t, err)
	return failure
}

// TestOnAServer runs operations on a real server, where a cancel waits for the
// step that it cuts off, and activities go by the queue of their place.
func TestOnAServer(t *testing.T) {
	t.Parallel()
	c := temporaltest.Client(t)

	t.Run("a server's life", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		in, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "spawn")
		require.NoError(t, err)
		s.whole(in, compute.OpCreate)
		in, err = s.play(compute.OpStop, compute.TaskPoweringOff, nil, "stop")
		require.NoError(t, err)
		s.whole(in, compute.OpStop)
		in, err = s.play(compute.OpStart, compute.TaskPoweringOn, nil, "start")
		require.NoError(t, err)
		s.whole(in, compute.OpStart)
		in, err = s.play(compute.OpReboot, compute.TaskRebooting, compute.RebootArguments{}, "reboot")
		require.NoError(t, err)
		s.whole(in, compute.OpReboot)
		in, err = s.play(compute.OpPause, compute.TaskPausing, nil, "pause")
		require.NoError(t, err)
		s.whole(in, compute.OpPause)
		in, err = s.play(compute.OpUnpause, compute.TaskUnpausing, nil, "unpause")
		require.NoError(t, err)
		s.whole(in, compute.OpUnpause)
		in, err = s.play(compute.OpRebuild, compute.TaskRebuilding, rebuildTo(crb), "rebuild")
		require.NoError(t, err)
		s.whole(in, compute.OpRebuild)
		in, err = s.play(compute.OpRescue, compute.TaskRescuing, compute.RescueArguments{Image: rescueImage}, "rescue")
		require.NoError(t, err)
		s.whole(in, compute.OpRescue)
		in, err = s.play(compute.OpUnrescue, compute.TaskUnrescuing, nil, "unrescue")
		require.NoError(t, err)
		s.whole(in, compute.OpUnrescue)
		run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: durable.ControlQueue}, workflows.AuditName)
		require.NoError(t, err)
		var audit workflows.AuditResult
		require.NoError(t, run.Get(t.Context(), &audit))
		require.Empty(t, audit.Findings)
		require.Empty(t, audit.Silent)
		s.replays(t.Context(), run.GetID(), run.GetRunID(), "audit")
		in, err = s.play(compute.OpDelete, compute.TaskDeleting, nil, "delete")
		require.NoError(t, err)
		s.gone(in)
	})

	t.Run("a host that is drained", func(t *testing.T) {
		for name, cancelled := range map[string]bool{"drain": false, "drain_cancelled": true} {
			s := &serverBench{bench: newBench(t, true), client: c, starter: durable.Starter{Client: c}}
			d, begun := &drainBench{}, make(chan struct{})
			d.end = drain.EndResult{State: compute.OperationSucceeded}
			d.watch = func(ctx context.Context, nth int) (drain.WatchResult, error) {
				if cancelled && nth == 1 {
					close(begun)
					<-ctx.Done()
					return drain.WatchResult{}, ctx.Err()
				}
				return drain.WatchResult{Done: nth == 2}, nil
			}
			if cancelled {
				d.end = drain.EndResult{State: compute.OperationCancelled, Message: "cancelled, servers left: 1"}
			}
			w := s.worker(durable.ControlQueue)
			workflows.Register(w)
			d.register(w)
			require.NoError(t, w.Start())
			op := compute.Operation{
				ID: compute.NewOperationID(), Subject: compute.HostOwner(compute.HostID{UUID: uuid.New()}), Kind: compute.OpDrain, AcceptedAt: time.Now(),
			}
			require.NoError(t, s.starter.Start(t.Context(), op))
			run := c.GetWorkflow(t.Context(), durable.WorkflowID(op.On(), op.Kind), "")
			if cancelled {
				<-begun
				require.NoError(t, c.CancelWorkflow(t.Context(), run.GetID(), ""))
				require.ErrorContains(t, run.Get(t.Context(), nil), "servers left: 1")
			} else {
				require.NoError(t, run.Get(t.Context(), nil))
			}
			require.Equal(t, []any{2, 1, cancelled}, []any{d.watched, d.ends, d.cancelled})
			s.replays(t.Context(), run.GetID(), run.GetRunID(), name)
			w.Stop()
		}
	})

	t.Run("a spawn that fails is undone", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		s.fault = func(c call) fault {
			switch {
			case c.name == domain.Start.Name:
				return fault{after: fail}
			case c.name == removal(compute.ThingKeySecret) && c.attempt == 1:
				return fault{before: func() error { return compute.Errorf(compute.Unavailable, "away") }}
			}
			return fault{}
		}
		in, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "spawn_failed")
		require.Equal(t, errBroken.Message, durable.FromTemporal(err).Message)
		s.early(in, subjects["spawn"], compute.OperationFailed, compute.VMError, compute.PowerNone)
	})

	t.Run("a delete cancels a running spawn and wins", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		started := make(chan struct{})
		var cut, early atomic.Bool
		s.fault = func(c call) fault {
			switch c.name {
			case domain.Start.Name:
				// The call blocks until its cancel comes, and then takes a while to end.
				return fault{block: func(ctx context.Context) error {
					close(started)
					<-ctx.Done()
					time.Sleep(300 * time.Millisecond)
					cut.Store(true)
					return compute.Errorf(compute.Unavailable, "libvirt: %w", ctx.Err())
				}}
			case removal(compute.ThingDomain), opact.CancelRunning.Name:
				early.Store(early.Load() || !cut.Load())
			}
			return fault{}
		}
		spawn := s.accept(compute.OpCreate, compute.TaskScheduling, nil)
		s.start(spawn)
		<-started
		in, err := s.play(compute.OpDelete, compute.TaskDeleting, nil, "delete_of_a_running_spawn")
		require.NoError(t, err)
		require.Error(t, s.ended(spawn, "spawn_cancelled"))
		require.True(t, cut.Load())
		require.False(t, early.Load(), "something was undone beside the step that made it")
		require.Equal(t, compute.OperationCancelled, s.operations[spawn.Operation].State)
		s.gone(in)
	})
}

// TestOnAServerEachOperation runs the others, and what cancels them.
func TestOnAServerEachOperation(t *testing.T) {
	t.Parallel()
	c := temporaltest.Client(t)

	t.Run("a server that is shelved", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		_, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "")
		require.NoError(t, err)
		for _, step := range []struct {
			kind      compute.OperationKind
			arguments any
			name      string
		}{
			{compute.OpShelve, compute.ShelveArguments{OffloadAfter: compute.NeverOffload}, "shelve_and_stay"},
			{compute.OpUnshelve, compute.UnshelveArguments{}, "unshelve_of_one_that_stayed"},
			{compute.OpShelve, compute.ShelveArguments{OffloadAfter: 60}, ""},
			{compute.OpShelveOffload, nil, "shelve_offload"},
			{compute.OpUnshelve, compute.UnshelveArguments{}, "unshelve"},
			{compute.OpShelve, compute.ShelveArguments{}, "shelve"},
		} {
			action, err := compute.ActionOf(step.kind)
			require.NoError(t, err)
			in, err := s.play(step.kind, action.Transition.Task, step.arguments, step.name)
			require.NoError(t, err)
			s.whole(in, step.kind)
		}
	})

	t.Run("a server that is moved", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		_, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "")
		require.NoError(t, err)
		for _, step := range []struct {
			kind      compute.OperationKind
			arguments any
			name      string
		}{
			{compute.OpResize, here(otherTPM), "resize_on_its_host"},
			{compute.OpRevertResize, nil, "revert_on_its_host"},
			{compute.OpResize, there(nil), "resize"},
			{compute.OpRevertResize, nil, "revert"},
			{compute.OpMigrate, compute.MigrateArguments{}, "migrate"},
			{compute.OpConfirmResize, nil, "confirm"},
			{compute.OpResize, here(sameTPM), ""},
			{compute.OpConfirmResize, nil, "confirm_on_its_host"},
		} {
			action, err := compute.ActionOf(step.kind)
			require.NoError(t, err)
			in, err := s.play(step.kind, action.Transition.Task, step.arguments, step.name)
			require.NoError(t, err)
			s.whole(in, step.kind)
		}
	})

	t.Run("a server that moves while it runs, and is evacuated", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		_, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "")
		require.NoError(t, err)
		_, err = s.play(compute.OpLiveMigrate, compute.TaskMigrating, compute.LiveMigrateArguments{}, "live_migrate")
		require.NoError(t, err)
		s.runsOnce(1)
		s.lost = true
		_, err = s.play(compute.OpLiveMigrate, compute.TaskMigrating, compute.LiveMigrateArguments{}, "live_migrate_failed")
		require.Equal(t, compute.Unavailable, durable.FromTemporal(err).Kind)
		s.runsOnce(1)
		s.lost = false
		s.fault = func(c call) fault {
			if c.name == domain.Arrived.Name {
				s.mu.Lock()
				defer s.mu.Unlock()
				h := s.hosts[0]
				s.down[h], s.forced[h], s.fencedOff[h] = true, true, true
				return fault{before: func() error { return compute.Errorf(compute.Conflict, "it has no power") }}
			}
			return fault{}
		}
		_, err = s.play(compute.OpLiveMigrate, compute.TaskMigrating, compute.LiveMigrateArguments{}, "live_migrate_to_a_host_that_dies")
		require.Equal(t, compute.NoHost, durable.FromTemporal(err).Kind)
		require.Equal(t, compute.VMStopped, s.row.server.VMState)
		s.fault = nil
		s.domains[s.hosts[0].String()+" "+s.row.server.InstanceName()] = compute.PowerShutdown
		clear(s.down)
		clear(s.forced)
		clear(s.fencedOff)
		in, err := s.play(compute.OpStart, compute.TaskPoweringOn, nil, "")
		require.NoError(t, err)
		s.whole(in, compute.OpStart)
		s.runsOnce(1)

		from := s.hosts[1]
		s.down[from], s.forced[from], s.fencedOff[from] = true, true, true
		in, err = s.play(compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{}, "evacuate")
		require.NoError(t, err)
		require.Contains(t, s.operations[in.Operation].Message, "was lost")
		clear(s.down)
		clear(s.forced)
		s.runsOnce(0)
	})

	t.Run("a migration that fails starts the old guest again", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		_, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "")
		require.NoError(t, err)
		s.fault = func(c call) fault {
			if c.name == domain.Start.Name && c.nth == 2 {
				return fault{before: fail}
			}
			return fault{}
		}
		in, err := s.play(compute.OpMigrate, compute.TaskResizePrep, compute.MigrateArguments{}, "migrate_failed")
		require.Equal(t, errBroken.Message, durable.FromTemporal(err).Message)
		s.early(in, subjects["rebuild"], compute.OperationFailed, compute.VMActive, compute.PowerRunning)
	})

	t.Run("a delete cancels a running resize and wins", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		_, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "")
		require.NoError(t, err)
		started := make(chan struct{})
		s.fault = func(c call) fault {
			if c.name != domain.Start.Name || c.nth != 2 {
				return fault{}
			}
			return fault{block: func(ctx context.Context) error {
				close(started)
				<-ctx.Done()
				return compute.Errorf(compute.Unavailable, "libvirt: %w", ctx.Err())
			}}
		}
		resize := s.accept(compute.OpResize, compute.TaskResizePrep, here(sameTPM))
		s.start(resize)
		<-started
		in, err := s.play(compute.OpDelete, compute.TaskDeleting, nil, "")
		require.NoError(t, err)
		require.Error(t, s.ended(resize, "resize_cancelled"))
		require.Equal(t, compute.OperationCancelled, s.operations[resize.Operation].State)
		s.gone(in)
	})

	t.Run("images of a server", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		_, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "")
		require.NoError(t, err)
		copied := compute.SnapshotArguments{Image: imageID, Name: "copy", Key: compute.KeySame}
		in := s.accept(compute.OpCreateImage, compute.TaskSnapshotPending, copied)
		s.start(in)
		require.Nil(t, s.recorded(in))
		require.NoError(t, s.ended(in, "create_image"))
		s.whole(in, compute.OpCreateImage)
		require.Nil(t, s.recorded(in), "asked when it has ended")
		for _, name := range []string{"create_backup", "create_backup_and_remove_one"} {
			backup := compute.SnapshotArguments{Image: compute.ImageID{UUID: uuid.New()}, Name: "backup", Key: compute.KeySame}
			backup.Backup = &compute.Backup{Type: "daily", Rotation: 1}
			in, err = s.play(compute.OpCreateBackup, compute.TaskBackup, backup, name)
			require.NoError(t, err)
			s.whole(in, compute.OpCreateBackup)
		}
	})

	t.Run("an image that is refused", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		_, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "")
		require.NoError(t, err)
		refused := compute.Errorf(compute.Forbidden, "no more images in this project")
		s.fault = func(c call) fault {
			if c.name == image.Create.Name {
				return fault{before: func() error { return refused }}
			}
			return fault{}
		}
		in := s.accept(compute.OpCreateImage, compute.TaskSnapshotPending, images[compute.OpCreateImage])
		s.start(in)
		require.Equal(t, refused, s.recorded(in))
		require.Error(t, s.ended(in, "create_image_refused"))
		require.Equal(t, refused, s.recorded(in), "asked when it has ended")
		s.early(in, subjects["snapshot of a running server"], compute.OperationFailed, compute.VMActive, compute.PowerRunning)
	})

	t.Run("a delete cancels an image whose record is waited for", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		_, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "")
		require.NoError(t, err)
		started := make(chan struct{})
		s.fault = func(c call) fault {
			if c.name != image.Create.Name {
				return fault{}
			}
			return fault{block: func(ctx context.Context) error {
				close(started)
				<-ctx.Done()
				return compute.Errorf(compute.Unavailable, "the image store: %w", ctx.Err())
			}}
		}
		copied := s.accept(compute.OpCreateImage, compute.TaskSnapshotPending, images[compute.OpCreateImage])
		s.start(copied)
		answer := make(chan *compute.Error, 1)
		go func() {
			failure, err := s.starter.ImageRecord(t.Context(), *s.operations[copied.Operation])
			if err == nil {
				answer <- failure
			}
			close(answer)
		}()
		<-started
		in, err := s.play(compute.OpDelete, compute.TaskDeleting, nil, "")
		require.NoError(t, err)
		require.Error(t, s.ended(copied, "create_image_cancelled"))
		require.Equal(t, compute.Conflict, compute.KindOf(<-answer))
		require.Empty(t, s.images)
		s.gone(in)
	})

	t.Run("a rebuild that fails starts the old guest again", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		_, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "")
		require.NoError(t, err)
		s.fault = func(c call) fault {
			if c.name == domain.Start.Name && c.nth == 2 {
				return fault{before: fail}
			}
			return fault{}
		}
		in, err := s.play(compute.OpRebuild, compute.TaskRebuilding, rebuildTo(crb), "rebuild_failed")
		require.Equal(t, errBroken.Message, durable.FromTemporal(err).Message)
		s.early(in, subjects["rebuild"], compute.OperationFailed, compute.VMActive, compute.PowerRunning)
	})

	t.Run("a delete cancels a running rebuild and wins", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		_, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "")
		require.NoError(t, err)
		started := make(chan struct{})
		s.fault = func(c call) fault {
			if c.name != domain.Start.Name || c.nth != 2 {
				return fault{}
			}
			return fault{block: func(ctx context.Context) error {
				close(started)
				<-ctx.Done()
				return compute.Errorf(compute.Unavailable, "libvirt: %w", ctx.Err())
			}}
		}
		rebuild := s.accept(compute.OpRebuild, compute.TaskRebuilding, rebuildTo(luks))
		s.start(rebuild)
		<-started
		in, err := s.play(compute.OpDelete, compute.TaskDeleting, nil, "")
		require.NoError(t, err)
		require.Error(t, s.ended(rebuild, "rebuild_cancelled"))
		require.Equal(t, 2, s.count(domain.Start.Name), "nobody starts what is to go")
		s.gone(in)
	})

	t.Run("a delete that is refused leaves a key waiting", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		_, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "")
		require.NoError(t, err)
		s.fault = func(c call) fault {
			if c.name == removal(compute.ThingKeySecret) && c.nth == 1 {
				return fault{before: func() error { return compute.Errorf(compute.Forbidden, "you may not") }}
			}
			return fault{}
		}
		_, err = s.play(compute.OpDelete, compute.TaskDeleting, nil, "delete_leaves_a_key_waiting")
		require.NoError(t, err)
		require.True(t, s.row.deleted)
		s.waits(1)
		s.janitor("janitor")
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Empty(t, s.ledger)
		require.Empty(t, s.secrets)
	})

	t.Run("a create with delegated keys", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		s.row.server.TPM.Security = compute.SecurityHost
		in, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "spawn_delegated")
		require.NoError(t, err)
		s.whole(in, compute.OpCreate)
		require.Len(t, s.trusts, 1)
	})

	t.Run("a rotation of keys", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		_, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "")
		require.NoError(t, err)
		in, err := s.play(compute.OpRotateKeys, compute.TaskRotatingKeys, compute.RotateArguments{}, "rotate_keys")
		require.NoError(t, err)
		s.whole(in, compute.OpRotateKeys)
	})

	t.Run("a delete cancels a running rotation and wins", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		_, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "")
		require.NoError(t, err)
		started := make(chan struct{}, 3)
		s.fault = func(c call) fault {
			if c.name != disk.AddKey.Name {
				return fault{}
			}
			return fault{block: func(ctx context.Context) error {
				started <- struct{}{}
				<-ctx.Done()
				return compute.Errorf(compute.Unavailable, "lock: %w", ctx.Err())
			}}
		}
		rotation := s.accept(compute.OpRotateKeys, compute.TaskRotatingKeys, compute.RotateArguments{})
		s.start(rotation)
		<-started
		in, err := s.play(compute.OpDelete, compute.TaskDeleting, nil, "")
		require.NoError(t, err)
		require.Error(t, s.ended(rotation, "rotation_cancelled"))
		require.Equal(t, compute.OperationCancelled, s.operations[rotation.Operation].State)
		s.gone(in)
	})

	t.Run("a server of an encrypted image", func(t *testing.T) {
		s := newServerBench(t, c, 2)
		s.encryptImage()
		in, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "spawn_of_an_encrypted_image")
		require.NoError(t, err)
		s.whole(in, compute.OpCreate)
		require.Len(t, s.uses, 1)
		in, err = s.play(compute.OpDelete, compute.TaskDeleting, nil, "delete_of_a_server_of_an_encrypted_image")
		require.NoError(t, err)
		require.Empty(t, s.uses)
		require.Empty(t, s.ledger)
		require.Equal(t, compute.OperationSucceeded, s.operations[in.Operation].State)
	})

	// It takes a minute and is only recorded: what was recorded is replayed, and the rest
	// is in TestSpawnPassesASilentHostBy.
	silentHost := func(t *testing.T) {
		s := newServerBench(t, c, 2)
		s.hosts = append([]compute.HostID{{UUID: s.row.server.ID.UUID}}, s.hosts...) // nobody serves it
		in, err := s.play(compute.OpCreate, compute.TaskScheduling, nil, "spawn_on_the_second_host")
		require.NoError(t, err)
		s.whole(in, compute.OpCreate)
	}
	if os.Getenv(recordVariable) != "" {
		t.Run("a silent host is passed by", silentHost)
	}
}
