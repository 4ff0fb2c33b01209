package worker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/worker"

	drains "strongroom/activities/drain"
	"strongroom/activities/image"
	"strongroom/activities/imagekey"
	"strongroom/activities/key"
	"strongroom/activities/ledger"
	"strongroom/activities/notification"
	"strongroom/activities/object"
	"strongroom/activities/operation"
	"strongroom/activities/placement"
	"strongroom/activities/port"
	"strongroom/activities/portwatch"
	"strongroom/activities/project"
	"strongroom/activities/record"
	"strongroom/activities/share"
	"strongroom/activities/sharewatch"
	"strongroom/activities/trust"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/durable/outbox"
	"strongroom/schema"
	"strongroom/workflows"
)

// janitorEvery is how soon a janitor that somebody terminated is there again. While one
// runs, the schedule starts none.
const janitorEvery = time.Minute

// cloudSlots bounds the calls of cloud services under way at once.
const cloudSlots = 64

// Control is a control worker. Any number may run, of several versions.
type Control struct {
	Temporal  client.Client
	Namespace string
	Version   string        // of this build
	Drain     time.Duration // see Deployment
	Retention time.Duration // of deleted servers in the database; 0: for ever
	// ImageKeyInterval is how often an image with a key is looked at, 0: never; ImageKeyGrace how
	// long its key stays when it is gone.
	ImageKeyInterval, ImageKeyGrace time.Duration
	// ImageKeyMostGone is what percentage of images may be gone at once for their keys to go.
	ImageKeyMostGone int
	// TPMBackupInterval is how often the state of vTPMs is backed up; 0: never.
	TPMBackupInterval time.Duration
	// ShareInterval is how often a share that a server has is looked at; 0: never.
	ShareInterval time.Duration
	// ShareMostMissed is what percentage of them may be missed at once for any to be put in error.
	ShareMostMissed int

	Pool     *pgxpool.Pool
	Keys     key.Manager
	Trusts   trust.Keeper
	Projects project.Registry // nil: no project is ever deleted
	Images   image.Library
	Objects  object.Store
	Shares   share.Service
	Networks port.Service
	// PlugTimeout is how long a create waits until its ports are active, 0: not at all; PlugFatal: it fails
	// then.
	PlugTimeout time.Duration
	PlugFatal   bool

	Seals operation.Seals // nil: what is sealed in the database stays under the key that sealed it
	// Notifications tells of operations, by Broker; both are nil where nobody wants to know.
	Notifications *notification.Writer
	Broker        notification.Broker
	Legacy        compute.DMCrypt
	Logger        *slog.Logger
	Interceptors  []interceptor.WorkerInterceptor // run inside the error boundary
}

// Run works until ctx ends, then drains.
func (c Control) Run(ctx context.Context) error {
	if err := c.Notifications.Configure(ctx, schema.New(c.Pool)); err != nil {
		return err
	}
	hostname, _ := os.Hostname()
	identity := fmt.Sprintf("control/%s/%d", hostname, os.Getpid())
	deployment := Deployment{
		Temporal: c.Temporal, Namespace: c.Namespace, Version: c.Version, Drain: c.Drain, Register: func(r sdk.WorkflowRegistry) { workflows.Register(r) }, Logger: c.Logger,
	}
	// Calls of cloud services are versioned too, unlike those of hosts: the process is
	// the same, so they cost no worker more, and an operation's calls reach the code
	// that was built with its workflow.
	o := options(identity, cloudSlots, c.Interceptors)
	o.DeploymentOptions = deployment.Options()
	group := NewGroup("control worker", c.Logger)
	control := group.New(c.Temporal, durable.ControlQueue, o)
	workflows.Register(control)
	c.registerControl(control)
	o.DisableWorkflowWorker = true
	cloud := group.New(c.Temporal, durable.CloudQueue, o)
	(&key.Activities{Manager: c.Keys}).Register(cloud)
	(&trust.Activities{Keeper: c.Trusts}).Register(cloud)
	(&project.Activities{Registry: c.Projects}).Register(cloud)
	(&image.Activities{Library: c.Images}).Register(cloud)
	(&object.Activities{Store: c.Objects}).Register(cloud)
	(&share.Activities{Service: c.Shares}).Register(cloud)
	(&port.Activities{Service: c.Networks, PlugTimeout: c.PlugTimeout, PlugFatal: c.PlugFatal}).Register(cloud)
	if c.Broker != nil {
		group.Add(&notification.Sender{Pool: c.Pool, Broker: c.Broker, Writer: c.Notifications, Logger: c.Logger})
	}
	return deployment.Run(ctx, group, c.schedule)
}

func (c Control) registerControl(r sdk.Registry) {
	records := &record.Activities{Pool: c.Pool, Legacy: c.Legacy, TPMBackupInterval: c.TPMBackupInterval, Notifications: c.Notifications}
	records.Register(r)
	(&ledger.Activities{Pool: c.Pool}).Register(r)
	(&placement.Activities{Pool: c.Pool, Logger: c.Logger}).Register(r)
	starter := durable.Starter{Client: c.Temporal}
	(&drains.Activities{Pool: c.Pool, Launcher: &outbox.Launcher{Starter: starter, Logger: c.Logger}, Logger: c.Logger}).Register(r)
	(&operation.Activities{
		Pool: c.Pool, Starter: starter, Record: records, Seals: c.Seals, Logger: c.Logger, Retention: c.Retention,
		ImageKeys: &imagekey.Watch{
			Pool: c.Pool, Library: c.Images, Interval: c.ImageKeyInterval, Grace: c.ImageKeyGrace, MostGone: c.ImageKeyMostGone, Logger: c.Logger,
		},
		Shares: &sharewatch.Watch{
			Pool: c.Pool, Service: c.Shares, Interval: c.ShareInterval, MostMissed: c.ShareMostMissed, Notifications: c.Notifications, Logger: c.Logger,
		},
		Ports: c.portWatch(),
	}).Register(r)
}

// portWatch is nil where servers have no ports.
func (c Control) portWatch() operation.Ports {
	if _, none := c.Networks.(port.None); none || c.Networks == nil {
		return nil
	}
	return &portwatch.Watch{Pool: c.Pool, Service: c.Networks}
}

// schedule makes sure that the janitor runs, once for all control workers, as this
// release wants it. It is the current version's to say: the schedule starts its
// workflow there.
func (c Control) schedule(ctx context.Context) error {
	const name = workflows.JanitorName
	return durable.EnsureSchedule(ctx, c.Temporal.ScheduleClient(), client.ScheduleOptions{
		ID:                 name,
		Spec:               client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: janitorEvery}}},
		Overlap:            enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
		TriggerImmediately: true,
		Action:             &client.ScheduleWorkflowAction{ID: name, Workflow: name, TaskQueue: durable.ControlQueue},
	})
}
