package worker

import (
	"context"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"

	"strongroom/compute"
	"strongroom/durable"
)

// Progress is the worker interceptor that shows users how far the long work on
// their servers is: what an activity sends to Temporal with its heartbeat, it reports
// too. A report that fails is not retried: the next one is newer.
type Progress struct {
	interceptor.WorkerInterceptorBase
	Report func(ctx context.Context, server compute.ServerID, percent int) error
	Logger *slog.Logger
}

// reportTime bounds how long a report may delay the work that it is about.
const reportTime = 2 * time.Second

// InterceptActivity reports the heartbeats of one activity.
func (p *Progress) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	a := &progressInbound{all: p}
	a.Next = next
	return a
}

type progressInbound struct {
	interceptor.ActivityInboundInterceptorBase
	all *Progress
}

func (a *progressInbound) Init(out interceptor.ActivityOutboundInterceptor) error {
	o := &progressOutbound{all: a.all}
	o.Next = out
	return a.Next.Init(o)
}

type progressOutbound struct {
	interceptor.ActivityOutboundInterceptorBase
	all *Progress
}

func (o *progressOutbound) RecordHeartbeat(ctx context.Context, details ...any) {
	o.Next.RecordHeartbeat(ctx, details...)
	if len(details) == 0 {
		return
	}
	p, ok := details[0].(compute.Progress)
	server, ours := durable.ServerOf(activity.GetInfo(ctx).WorkflowExecution.ID)
	if !ok || !ours {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	if err := o.all.Report(ctx, server, p.Percent()); err != nil {
		o.all.Logger.WarnContext(ctx, "the progress of a server could not be reported", "server", server, "error", err)
	}
}
