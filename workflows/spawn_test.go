package workflows_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/key"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// TestSpawnGivesEachThingItsOwnSecret (EE-09, TPM-09, TPM-10).
func TestSpawnGivesEachThingItsOwnSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	require.NoError(t, b.run(compute.OpCreate, in, nil))
	b.whole(in, compute.OpCreate)
	s := b.row.server
	ids := map[compute.SecretID]bool{*s.TPM.Secret: true}
	for _, d := range s.Disks {
		ids[*d.Secret] = true
		require.Equal(t, map[string]string{"cipher-alg": "aes-256"}, d.EncryptionOptions)
	}
	require.Len(t, ids, 4)
	require.Len(t, b.secrets, 4)
	for name, id := range b.secrets {
		require.True(t, ids[id])
		server, op, ours := compute.SecretOwner(name)
		require.True(t, ours)
		require.Equal(t, s.ID, server)
		require.Equal(t, in.Operation, op)
	}
	names := b.names()
	at := func(name string) int { return slices.IndexFunc(names, func(c call) bool { return c.name == name }) }
	require.Less(t, at(key.Create.Name), at(disk.Create.Name))
	saved := slices.IndexFunc(names, func(c call) bool { return c.name == record.Advance.Name && strings.Contains(c.detail, `"secrets":`) })
	require.Positive(t, saved)
	require.Less(t, saved, at(domain.Start.Name), "on record before the guest starts")
}

// A root disk on a block device is a copy of its image, and takes as long (EE-04).
func TestSpawnOnBlockDevices(t *testing.T) {
	t.Parallel()
	for _, format := range []compute.DiskFormat{compute.FormatLUKSv2, compute.FormatPlain} {
		b := newBench(t, true)
		in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
		for i := range b.row.server.Disks {
			b.row.server.Disks[i].Format = format
		}
		require.NoError(t, b.run(compute.OpCreate, in, nil))
		b.whole(in, compute.OpCreate)
		for _, d := range b.row.server.Disks {
			require.Equal(t, format, d.Format)
		}
	}
}

func TestSpawnWithoutEncryptionMakesNoSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	require.NoError(t, b.run(compute.OpCreate, in, nil))
	b.whole(in, compute.OpCreate)
	require.Zero(t, b.count(key.Create.Name))
	require.Empty(t, b.secrets)
}

// silence lets bulk work on hosts time out untaken, as the server does where no
// worker polls. Where they die of it, it is done and nobody hears of it.
type silence struct {
	interceptor.WorkerInterceptorBase
	hosts []compute.HostID
	die   bool
	quick bool         // of short work too
	since *atomic.Bool // nil: from the beginning; else, whether it has begun
	tried *atomic.Int32
	times int32 // so many calls; 0: all
}

// keepsQuiet reports whether nobody takes what comes by a queue.
func (s *silence) keepsQuiet(queue durable.Queue) bool {
	return (s.since == nil || s.since.Load()) && (s.times == 0 || s.tried.Load() < s.times) && slices.ContainsFunc(s.hosts, func(h compute.HostID) bool {
		return queue == durable.HostBulkQueue(h) || s.quick && queue == durable.HostQueue(h)
	})
}

func (s *silence) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &silentInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, s}
}

type silentInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	s *silence
}

func (i *silentInbound) Init(out interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&silentOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: out}, i.s})
}

type silentOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	s *silence
}

func (o *silentOutbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	options := workflow.GetActivityOptions(ctx)
	if !o.s.keepsQuiet(options.TaskQueue) {
		return o.Next.ExecuteActivity(ctx, name, args...)
	}
	if o.s.tried != nil {
		o.s.tried.Add(1)
	}
	limit := options.ScheduleToStartTimeout
	if limit == 0 {
		limit = cmp.Or(options.ScheduleToCloseTimeout, 365*24*time.Hour)
	}
	f, set := workflow.NewFuture(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := workflow.Sleep(ctx, limit); err != nil {
			set.SetError(err)
			return
		}
		var reported []any
		if o.s.die {
			_ = o.Next.ExecuteActivity(ctx, name, args...).Get(ctx, nil)
			reported = []any{"begun"}
		}
		set.SetError(temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil, reported...))
	})
	return f
}

// hushed makes the first n hosts of the bench silent.
func (b *bench) hushed(n int) func(*testsuite.TestWorkflowEnvironment) {
	return silenced(&silence{hosts: b.hosts[:n], quick: true})
}

func silenced(s *silence) func(*testsuite.TestWorkflowEnvironment) {
	return func(env *testsuite.TestWorkflowEnvironment) {
		env.SetWorkerOptions(workerOptions(s))
	}
}

func TestSpawnPassesASilentHostBy(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	require.NoError(t, b.run(compute.OpCreate, in, b.hushed(1)))
	b.whole(in, compute.OpCreate)
	require.Equal(t, b.hosts[1], *b.row.server.Host)
	require.Equal(t, map[compute.OperationID]compute.HostID{in.Operation: b.hosts[1]}, b.claims)
	for _, s := range b.things() {
		require.NotEqual(t, b.hosts[0].String(), s.Place)
	}
}

// H6: a host whose slots for downloads are all taken is not silent. The create waits for it,
// and is not told that there is no host.
func TestH6ABusyHostIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, times := range []int32{1, 20} {
		b := newBench(t, true)
		in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
		busy := &silence{hosts: b.hosts, tried: &atomic.Int32{}, times: times}
		require.NoError(t, b.run(compute.OpCreate, in, silenced(busy)))
		b.whole(in, compute.OpCreate)
		require.Equal(t, b.hosts[0], *b.row.server.Host)
		require.Equal(t, times, busy.tried.Load())
		require.Equal(t, int(times), b.count(disk.Ping.Name))
	}
}

// H6: one whose slots are not free for six hours, which is 74 calls, is left.
func TestH6AHostThatStaysBusyIsLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	require.NoError(t, b.run(compute.OpCreate, in, silenced(&silence{hosts: b.hosts, tried: &atomic.Int32{}, times: 74})))
	b.whole(in, compute.OpCreate)
	require.Equal(t, b.hosts[1], *b.row.server.Host)
}

func TestSpawnOnSilentHostsOnlyFindsNone(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	err := b.run(compute.OpCreate, in, b.hushed(2))
	require.True(t, compute.Is(durable.FromTemporal(err), compute.NoHost))
	b.early(in, subjects["spawn"], compute.OperationFailed, compute.VMError, compute.PowerNone)
	require.Equal(t, compute.NoValidHost, b.row.fault.Message)
	require.Equal(t, 500, b.row.fault.Code)
	require.WithinDuration(t, time.Now(), b.row.fault.Created, 10*time.Minute)
	require.Equal(t, compute.NoValidHost, b.operations[in.Operation].Message)
	require.Zero(t, b.count(key.Create.Name), "no secret before there is a host")
}

// TestACancelOnASilentHost: the wait for a worker can be cut short.
func TestACancelOnASilentHost(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	err := b.run(compute.OpCreate, in, func(env *testsuite.TestWorkflowEnvironment) {
		b.hushed(2)(env)
		env.RegisterDelayedCallback(env.CancelWorkflow, 30*time.Second)
	})
	require.True(t, temporal.IsCanceledError(err))
	b.early(in, subjects["spawn"], compute.OperationCancelled, compute.VMError, compute.PowerNone)
}

// TestLowUsersSeeNoPlacesOfAHost: the fault and the operation's message say what to do; the
// trail, which administrators see, has all that the host said.
func TestLowUsersSeeNoPlacesOfAHost(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	said := &disk.CommandError{Name: "qemu-img info", Stderr: "Could not open '/srv/images/x'", Err: errors.New("exit status 1")}
	b.fault = func(c call) fault {
		if c.name != disk.CacheImage.Name {
			return fault{}
		}
		return fault{before: func() error { return compute.Errorf(compute.Corrupt, "image x is no readable raw: %w", said) }}
	}
	require.Error(t, b.run(compute.OpCreate, in, nil))
	const shown = "image x is no readable raw: data is missing or damaged; ask the cloud's operator, who finds more under the request id"
	require.Equal(t, shown, b.row.fault.Message)
	require.Equal(t, shown, b.operations[in.Operation].Message)
	require.Equal(t, "done: image x is no readable raw: "+said.Error(), b.events[eventKey(in, "cache_image", b.host(0))])
}

// TestAFaultSaysWhatWentWrong: its code follows the kind of the failure.
func TestAFaultSaysWhatWentWrong(t *testing.T) {
	t.Parallel()
	for kind, code := range map[compute.Kind]int{
		compute.Invalid: 400, compute.Forbidden: 403, compute.NotFound: 404, compute.Conflict: 409, compute.Corrupt: 500, "": 500,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, true)
			in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
			b.fault = func(c call) fault {
				if c.name != disk.CacheImage.Name {
					return fault{}
				}
				return fault{before: func() error { return compute.Errorf(kind, "image x: no") }}
			}
			require.Error(t, b.run(compute.OpCreate, in, nil))
			b.early(in, subjects["spawn"], compute.OperationFailed, compute.VMError, compute.PowerNone)
			require.Equal(t, code, b.row.fault.Code)
			require.Equal(t, "image x: no", b.row.fault.Message)
			trail := b.events[eventKey(in, "cache_image", b.host(0))]
			require.Equal(t, "done: image x: no", trail)
			require.NotContains(t, trail, "activity error")
		})
	}
}

// TestAServiceThatStaysAwayEndsTheSpawn: the key manager does not answer for
// ten minutes; what was made before is undone once it is back.
func TestAServiceThatStaysAwayEndsTheSpawn(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	b.fault = func(c call) fault {
		if c.name != key.Create.Name {
			return fault{}
		}
		return fault{after: func() error { return compute.Errorf(compute.Unavailable, "away") }}
	}
	require.Error(t, b.run(compute.OpCreate, in, nil))
	b.early(in, subjects["spawn"], compute.OperationFailed, compute.VMError, compute.PowerNone)
}

// A8: the key of an image that may still be made is looked for when it cannot be any more,
// and the image, whose making was answered, goes at once.
func TestA8TheKeyOfAnImageThatComesLate(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	in := b.accept(compute.OpCreateImage, compute.TaskSnapshotPending, compute.SnapshotArguments{Image: imageID, Name: "copy", Key: compute.KeyNew})
	b.fault = func(c call) fault {
		if c.name == key.Create.Name {
			return fault{before: func() error { return compute.Errorf(compute.Unavailable, "no answer") }}
		}
		return fault{}
	}
	require.Error(t, b.run(compute.OpCreateImage, in, nil))
	var waiting []compute.Thing
	for _, thing := range b.ledger {
		if thing.State == compute.ThingWaiting {
			waiting = append(waiting, thing)
		}
	}
	require.Len(t, waiting, 1)
	require.Equal(t, compute.ThingKeySecret, waiting[0].Kind)
	require.Equal(t, compute.BlockedByTime, waiting[0].BlockedBy)
	require.Empty(t, b.images)
	b.fault = nil
	b.reaps(1, 0)
}

// A8: a delete that comes while a key may still be made leaves it to the janitor.
func TestA8ADeleteLeavesWhatMayStillHappen(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.fault = func(c call) fault {
		if c.name == key.Create.Name {
			return fault{before: func() error { return compute.Errorf(compute.Unavailable, "no answer") }}
		}
		return fault{}
	}
	require.Error(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
	b.fault = nil
	require.Len(t, b.ledger, 4)
	for _, waits := range b.ledger {
		require.Equal(t, compute.BlockedByTime, waits.BlockedBy)
	}
	b.forget()
	in := b.deletion()
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	require.True(t, b.row.deleted)
	require.Zero(t, b.count(removal(compute.ThingKeySecret)))
	require.Len(t, b.ledger, 4)
	b.gone(in)
}

// A8: the key manager gives no answer, and makes a secret after the undo found none. The
// server is not held for it.
func TestA8WhatComesLateIsRemovedLater(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	b.fault = func(c call) fault {
		switch {
		case c.name == key.Create.Name:
			return fault{before: func() error { return compute.Errorf(compute.Unavailable, "no answer") }}
		case c.name == removal(compute.ThingKeySecret) && c.nth == 1:
			return fault{after: func() error {
				var asked compute.Removal
				require.NoError(t, json.Unmarshal([]byte(c.detail), &asked))
				b.mu.Lock()
				defer b.mu.Unlock()
				b.secrets[asked.Thing.Name] = compute.SecretID{UUID: uuid.New()}
				return nil
			}}
		}
		return fault{}
	}
	require.Error(t, b.run(compute.OpCreate, in, nil))
	b.early(in, subjects["spawn"], compute.OperationFailed, compute.VMError, compute.PowerNone)
}
