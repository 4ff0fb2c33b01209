//go:build faultpoints

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// faultPointVariable names a folder. A file in it called <activity>@before or
// <activity>@after makes the worker that reaches that point remove the file and
// kill itself, as if the machine's power went: the kill matrix arms one point
// at a time.
const faultPointVariable = "STRONGROOM_FAULTPOINTS"

func faultPoints() []interceptor.WorkerInterceptor {
	return []interceptor.WorkerInterceptor{&killer{dir: os.Getenv(faultPointVariable)}}
}

type killer struct {
	interceptor.WorkerInterceptorBase
	dir string
}

func (k *killer) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	d := &deadly{dir: k.dir}
	d.Next = next
	return d
}

type deadly struct {
	interceptor.ActivityInboundInterceptorBase
	dir string
}

func (d *deadly) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	name := activity.GetInfo(ctx).ActivityType.Name
	d.reach(name + "@before")
	result, err := d.Next.ExecuteActivity(ctx, in)
	d.reach(name + "@after")
	return result, err
}

// reach kills this process when the point is armed. Removing the file decides
// between several that reach it at once.
func (d *deadly) reach(point string) {
	if d.dir == "" || os.Remove(filepath.Join(d.dir, strings.ReplaceAll(point, "/", "_"))) != nil {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}
