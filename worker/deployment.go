package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// DeploymentName is what Temporal calls the control workers of all versions.
const DeploymentName = "strongroom-control"

// Deployment is the control workers of one version among those of others. An
// operation is pinned: it ends on the version on which it began, so the code of its
// workflow never changes under it. New operations begin on the current version.
type Deployment struct {
	Temporal  client.Client
	Namespace string
	Version   string // the build id
	// Drain bounds how long a worker that is told to stop waits for operations that
	// only its version may go on with.
	Drain time.Duration
	// Register registers the version's workflows.
	Register func(sdk.WorkflowRegistry)
	Logger   *slog.Logger
}

// Run runs the version's workers until ctx ends and no operation needs them (drain).
// current is called once new operations begin on this version.
func (d Deployment) Run(ctx context.Context, group *Group, current func(context.Context) error) error {
	working, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if err := d.lead(working, current); err != nil && working.Err() == nil {
			group.Fail(err)
		}
	}()
	return group.Run(ctx, d.drain)
}

// lead makes this version current, and from then on looks after the operations of
// versions that nobody runs any more.
func (d Deployment) lead(ctx context.Context, current func(context.Context) error) error {
	if err := d.makeCurrent(ctx); err != nil {
		return err
	}
	if err := current(ctx); err != nil {
		return err
	}
	for {
		if err := d.adopt(ctx); err != nil && ctx.Err() == nil {
			d.Logger.WarnContext(ctx, "operations of other versions could not be looked after", "error", err)
		}
		if !sleep(ctx, adoptEvery) {
			return nil
		}
	}
}

func (d Deployment) version() sdk.WorkerDeploymentVersion {
	return sdk.WorkerDeploymentVersion{DeploymentName: DeploymentName, BuildID: d.Version}
}

// Options are for the workers of every queue of the version. A workflow is pinned
// unless its registration says otherwise (workflow.RegisterOptions).
func (d Deployment) Options() sdk.DeploymentOptions {
	return sdk.DeploymentOptions{UseVersioning: true, Version: d.version(), DefaultVersioningBehavior: workflow.VersioningBehaviorPinned}
}

// retryEvery is how often Temporal is asked again for what it cannot do yet.
const retryEvery = 500 * time.Millisecond

// makeCurrent lets new operations begin on this version. Temporal knows the version
// when its workers have polled, a moment after they start, and refuses it until
// then. Several workers may do this at once. Whoever starts last wins: to go back
// to an older version is to start its workers again.
func (d Deployment) makeCurrent(ctx context.Context) error {
	handle := d.Temporal.WorkerDeploymentClient().GetHandle(DeploymentName)
	for said := time.Now(); ; {
		_, err := handle.SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: d.Version})
		var disabled *serviceerror.Unimplemented
		switch {
		case err == nil:
			d.Logger.InfoContext(ctx, "new operations begin on this version", "version", d.Version)
			return nil
		case errors.As(err, &disabled):
			return fmt.Errorf("this Temporal has no Worker Deployments, which strongroom needs (server 1.28 or newer): %w", err)
		case time.Since(said) > sayEvery:
			said = time.Now()
			d.Logger.WarnContext(ctx, "this version is not current yet", "version", d.Version, "error", err)
		}
		if !sleep(ctx, retryEvery) {
			return ctx.Err()
		}
	}
}

// isCurrent reports whether new operations begin on this version.
func (d Deployment) isCurrent(ctx context.Context) (bool, error) {
	about, err := d.Temporal.WorkerDeploymentClient().GetHandle(DeploymentName).Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if err != nil {
		return false, err
	}
	current := about.Info.RoutingConfig.CurrentVersion
	return current != nil && current.BuildID == d.Version, nil
}

// pinnedTo is the query for the executions that run pinned to a version.
func pinnedTo(version string) string {
	return fmt.Sprintf("TemporalWorkerDeploymentVersion = '%s:%s' AND TemporalWorkflowVersioningBehavior = 'Pinned' AND ExecutionStatus = 'Running'",
		DeploymentName, version)
}

// pinned counts the executions that run pinned to this version.
func (d Deployment) pinned(ctx context.Context) (int64, error) {
	found, err := d.Temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: d.Namespace, Query: pinnedTo(d.Version)})
	return found.GetCount(), err
}

// sleep waits, and reports whether ctx lasted.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
