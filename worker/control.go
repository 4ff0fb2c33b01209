package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	sdk "go.temporal.io/sdk/worker"

	"strongroom/activities/image"
	"strongroom/activities/key"
	"strongroom/activities/object"
	"strongroom/activities/operation"
	"strongroom/activities/record"
	"strongroom/activities/trust"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/workflows"
)

// sweepEvery is how soon a committed operation that never started is started.
const sweepEvery = 10 * time.Second

// reapEvery is how often what waits for a credential, or a host, is tried again.
const reapEvery = 15 * time.Second

// cloudSlots bounds the calls of cloud services under way at once.
const cloudSlots = 64

// Control is a control worker. Any number may run.
type Control struct {
	Temporal     client.Client
	Pool         *pgxpool.Pool
	Keys         key.Manager
	Trusts       trust.Keeper
	Images       image.Library
	Objects      object.Store
	Legacy       compute.LegacyEncryption
	Logger       *slog.Logger
	Interceptors []interceptor.WorkerInterceptor // run inside the error boundary
}

// Run works until ctx ends, then drains.
func (c Control) Run(ctx context.Context) error {
	if err := c.schedule(ctx); err != nil {
		return err
	}
	hostname, _ := os.Hostname()
	identity := fmt.Sprintf("control/%s/%d", hostname, os.Getpid())
	control := sdk.New(c.Temporal, durable.ControlQueue, options(identity, cloudSlots, c.Interceptors))
	workflows.Register(control)
	c.registerControl(control)
	cloud := sdk.New(c.Temporal, durable.CloudQueue, options(identity, cloudSlots, c.Interceptors))
	(&key.Activities{Manager: c.Keys}).Register(cloud)
	(&trust.Activities{Keeper: c.Trusts}).Register(cloud)
	(&image.Activities{Library: c.Images}).Register(cloud)
	(&object.Activities{Store: c.Objects}).Register(cloud)
	return run(ctx, c.Logger, "control worker", control, cloud)
}

func (c Control) registerControl(r sdk.Registry) {
	records := &record.Activities{Pool: c.Pool, Legacy: c.Legacy}
	for _, a := range records.All() {
		r.RegisterActivityWithOptions(a.Func, activity.RegisterOptions{Name: a.Name})
	}
	(&operation.Activities{
		Pool: c.Pool, Starter: durable.Starter{Client: c.Temporal}, Record: records, Logger: c.Logger,
	}).Register(r)
}

// schedule makes sure that the sweeper and the reaper run, once for all control
// workers.
func (c Control) schedule(ctx context.Context) error {
	for name, every := range map[string]time.Duration{workflows.SweepName: sweepEvery, workflows.ReapName: reapEvery} {
		_, err := c.Temporal.ScheduleClient().Create(ctx, client.ScheduleOptions{
			ID:      name,
			Spec:    client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: every}}},
			Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
			Action:  &client.ScheduleWorkflowAction{ID: name, Workflow: name, TaskQueue: durable.ControlQueue},
		})
		if err != nil && !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
			return fmt.Errorf("scheduling %q: %w", name, err)
		}
	}
	return nil
}

// run starts workers, waits for ctx, and drains them.
func run(ctx context.Context, logger *slog.Logger, name string, workers ...sdk.Worker) error {
	for i, w := range workers {
		if err := w.Start(); err != nil {
			for _, started := range workers[:i] {
				started.Stop()
			}
			return fmt.Errorf("starting the %s: %w", name, err)
		}
	}
	logger.InfoContext(ctx, "worker is ready", "worker", name)
	<-ctx.Done()
	logger.InfoContext(ctx, "worker drains", "worker", name)
	for _, w := range workers {
		w.Stop()
	}
	return nil
}
