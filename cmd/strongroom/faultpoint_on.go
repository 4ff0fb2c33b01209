//go:build faultpoints

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/durable"
)

// faultPointVariable names a folder. A file in it called <activity>@before or
// <activity>@after arms that point of every worker; of what removes things the kind is
// told too, disk.Remove.disk_file@before. An empty one makes the worker
// that reaches the point remove the file and kill itself, as if the machine's
// power went: the kill matrix arms one point at a time. One that says next lets the first call
// that reaches the point pass, and is empty for the next one. One that says hold makes
// each call that reaches the point wait until the file is gone; the file
// <point>.reached says that one waits. <point>@<host> is that point on one host alone.
const faultPointVariable = "STRONGROOM_FAULTPOINTS"

const (
	holdPoint = "hold"
	nextPoint = "next"
	reached   = ".reached"
	holdPause = 50 * time.Millisecond
)

func faultPoints(host string) []interceptor.WorkerInterceptor {
	return []interceptor.WorkerInterceptor{&faults{dir: os.Getenv(faultPointVariable), host: host}}
}

// testHeartbeatTimeout is shorter than a release's, since tests kill workers all the time.
const testHeartbeatTimeout = 4 * time.Second

type faults struct {
	interceptor.WorkerInterceptorBase
	dir  string
	host string // "": no host's worker
}

func (f *faults) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	a := &faulty{dir: f.dir, host: f.host}
	a.Next = next
	return a
}

// InterceptWorkflow shortens the heartbeat timeout of every activity. An interceptor may
// do that, and workflow code need not know of it: a replay compares an activity's id
// and type, not its timeouts.
func (f *faults) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &testHeartbeatInbound{}
	in.Next = next
	return in
}

type testHeartbeatInbound struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (i *testHeartbeatInbound) Init(out interceptor.WorkflowOutboundInterceptor) error {
	o := &testHeartbeatOutbound{}
	o.Next = out
	return i.Next.Init(o)
}

type testHeartbeatOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
}

func (o *testHeartbeatOutbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	return o.Next.ExecuteActivity(workflow.WithHeartbeatTimeout(ctx, testHeartbeatTimeout), name, args...)
}

type faulty struct {
	interceptor.ActivityInboundInterceptorBase
	dir, host string
}

func (f *faulty) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	name := pointOf(ctx, in)
	if err := f.reach(ctx, name+"@before"); err != nil {
		return nil, err
	}
	result, err := f.Next.ExecuteActivity(ctx, in)
	if cut := f.reach(ctx, name+"@after"); cut != nil {
		return nil, cut
	}
	return result, err
}

// pointOf names an activity, and of what it removes the kind: disk.Remove.disk_file.
func pointOf(ctx context.Context, in *interceptor.ExecuteActivityInput) string {
	name := activity.GetInfo(ctx).ActivityType.Name
	if r, ok := durable.Input[compute.Removal](in); ok {
		name += "." + string(r.Thing.Kind)
	}
	return name
}

// reach does what the point is armed for, anywhere or on this host.
func (f *faulty) reach(ctx context.Context, point string) error {
	if f.dir == "" {
		return nil
	}
	if err := f.reachArmed(ctx, point); err != nil || f.host == "" {
		return err
	}
	return f.reachArmed(ctx, point+"@"+f.host)
}

// reachArmed does what the point is armed for. A call that is held ends early when it
// is cancelled or its time is over.
func (f *faulty) reachArmed(ctx context.Context, point string) error {
	path := filepath.Join(f.dir, strings.ReplaceAll(point, "/", "_"))
	what, err := os.ReadFile(path)
	if err != nil {
		return nil //nolint:nilerr // there is none: the point is not armed
	}
	switch string(what) {
	case holdPoint:
		return hold(ctx, path)
	case nextPoint:
		return os.Truncate(path, 0)
	}
	if os.Remove(path) == nil { // where several reach it, one dies
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
	return nil
}

func hold(ctx context.Context, path string) error {
	if err := os.WriteFile(path+reached, nil, 0o600); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(holdPause):
		}
	}
}
