package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"

	"strongroom/durable"
)

const (
	// adoptEvery is how often operations of versions without workers are looked for.
	adoptEvery = time.Minute
	// answerTime is how long a version's workers have to answer a query. One whose
	// local activity is tried again holds the workflow task for 8 s, and then the next.
	answerTime = 20 * time.Second
	// samples is how many operations of a version are asked before its workers count
	// as gone.
	samples = 3
	// metadataQuery is answered by the SDK for every workflow.
	metadataQuery = "__temporal_workflow_metadata"
	// versionAttribute is the search attribute of the version that an execution is on.
	versionAttribute = "TemporalWorkerDeploymentVersion"
)

// adopt moves to this version the operations that are pinned to a version whose
// workers are all gone: stopped before its operations ended, or lost. Nobody else
// would ever go on with them. One is moved only if this version's code replays its
// history; of another one the log says which version it needs.
func (d Deployment) adopt(ctx context.Context) error {
	current, err := d.isCurrent(ctx)
	if err != nil || !current {
		return err
	}
	others, err := d.others(ctx)
	if err != nil {
		return err
	}
	for version, executions := range others {
		served, err := d.served(ctx, executions)
		if err != nil {
			return err
		}
		if served {
			continue
		}
		d.Logger.WarnContext(ctx, "no worker of this version answers: its operations go on with the current one",
			"version", version, "operations", len(executions), "current", d.Version)
		for _, execution := range executions {
			if err := d.move(ctx, execution); err != nil {
				d.Logger.ErrorContext(ctx, "an operation stands still: start a control worker of the version on which it began",
					"workflow", execution.GetWorkflowId(), "run", execution.GetRunId(), "version", version, "error", err)
			}
		}
	}
	return nil
}

// others are the executions that run pinned to another version, by version.
func (d Deployment) others(ctx context.Context) (map[string][]*commonpb.WorkflowExecution, error) {
	found := map[string][]*commonpb.WorkflowExecution{}
	request := &workflowservice.ListWorkflowExecutionsRequest{Namespace: d.Namespace, Query: fmt.Sprintf(
		"TemporalWorkerDeployment = '%s' AND TemporalWorkflowVersioningBehavior = 'Pinned' AND ExecutionStatus = 'Running'", DeploymentName)}
	for {
		page, err := d.Temporal.ListWorkflow(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, info := range page.GetExecutions() {
			if version := versionOf(info); version != "" && version != d.Version {
				found[version] = append(found[version], info.GetExecution())
			}
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return found, nil
		}
	}
}

// versionOf is the build id of the version that an execution is on.
func versionOf(info *workflowpb.WorkflowExecutionInfo) string {
	var version string
	payload := info.GetSearchAttributes().GetIndexedFields()[versionAttribute]
	if payload == nil || converter.GetDefaultDataConverter().FromPayload(payload, &version) != nil {
		return ""
	}
	id, ok := strings.CutPrefix(version, DeploymentName+":")
	if !ok {
		return ""
	}
	return id
}

// served reports whether some worker answers for these executions. A query is put
// to the very workers that would go on with the execution, whatever its state.
func (d Deployment) served(ctx context.Context, executions []*commonpb.WorkflowExecution) (bool, error) {
	asked := executions[:min(samples, len(executions))]
	answers := make(chan error, len(asked))
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for _, e := range asked {
		go func() {
			_, err := d.Temporal.QueryWorkflow(ctx, e.GetWorkflowId(), e.GetRunId(), metadataQuery)
			answers <- err
		}()
	}
	for range asked {
		var refused *serviceerror.QueryFailed
		var ended *serviceerror.NotFound // it ended just now, so somebody was there
		switch err := <-answers; {
		case err == nil, errors.As(err, &refused), errors.As(err, &ended):
			return true, nil
		case !unanswered(err):
			return false, err
		}
	}
	return false, nil
}

// unanswered reports whether a query failed since no worker took it.
func unanswered(err error) bool {
	var late *serviceerror.DeadlineExceeded
	var nobody *serviceerror.FailedPrecondition
	var failing *serviceerror.WorkflowNotReady
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late) || errors.As(err, &nobody) || errors.As(err, &failing)
}

// move pins an execution to this version, if this version can go on with it.
func (d Deployment) move(ctx context.Context, e *commonpb.WorkflowExecution) error {
	history := &historypb.History{}
	events := d.Temporal.GetWorkflowHistory(ctx, e.GetWorkflowId(), e.GetRunId(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return err
		}
		history.Events = append(history.Events, event)
	}
	replayer, err := durable.NewReplayer()
	if err != nil {
		return err
	}
	d.Register(replayer)
	if err := replayer.ReplayWorkflowHistory(log.NewStructuredLogger(d.Logger), history); err != nil {
		return fmt.Errorf("version %s cannot go on with it: %w", d.Version, err)
	}
	_, err = d.Temporal.UpdateWorkflowExecutionOptions(ctx, client.UpdateWorkflowExecutionOptionsRequest{
		WorkflowId: e.GetWorkflowId(), RunId: e.GetRunId(),
		WorkflowExecutionOptionsChanges: client.WorkflowExecutionOptionsChanges{
			VersioningOverride: &client.VersioningOverrideChange{Value: &client.PinnedVersioningOverride{Version: d.version()}},
		},
	})
	return err
}
