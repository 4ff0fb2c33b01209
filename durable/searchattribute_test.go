package durable_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
)

func bareClient(t *testing.T) (client.Client, string) {
	t.Helper()
	server := temporaltest.Start(t)
	c, err := durable.Dial(durable.ClientConfig{Address: server.Address(), Namespace: server.Namespace(), Keys: temporaltest.Keys, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, server.Namespace()
}

// An operation is found by each of its attributes; before they are registered its
// start says what to do, and works after that was done.
func TestA9OperationsAreFoundByTheirAttributes(t *testing.T) {
	t.Parallel()
	c, namespace := bareClient(t)
	s := durable.Starter{Client: c}
	op := newOperation(newServer(), compute.OpCreate)
	op.Credential.ProjectID = "7f3d"
	err := s.Start(t.Context(), op)
	require.True(t, compute.Is(err, compute.Unavailable), "%v", err)
	require.ErrorContains(t, err, "run strongroom migrate")

	errs := make(chan error)
	for range 3 {
		go func() { errs <- durable.RegisterSearchAttributes(t.Context(), c, namespace) }()
	}
	for range 3 {
		require.NoError(t, <-errs)
	}
	require.NoError(t, durable.RegisterSearchAttributes(t.Context(), c, namespace), "again")

	w := worker.New(c, durable.ControlQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(described, workflow.RegisterOptions{Name: durable.WorkflowType(compute.OpCreate)})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	require.NoError(t, s.Start(t.Context(), op))
	require.NoError(t, s.Start(t.Context(), newOperation(newServer(), compute.OpCreate)), "another one, which is not found")
	for _, query := range []string{
		fmt.Sprintf("Server = '%s'", op.ServerID), fmt.Sprintf("Request = '%s'", op.ID), "Project = '7f3d'",
		"Server = '" + op.ServerID.String() + "' AND ServerName STARTS_WITH 'web-1.'",
		"Server = '" + op.ServerID.String() + "' AND Hosts = 'node-2' AND Phase = 'undoing'",
	} {
		require.Eventually(t, func() bool {
			found, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
			require.NoError(t, err, query)
			return len(found.GetExecutions()) == 1 && found.GetExecutions()[0].GetExecution().GetWorkflowId() == durable.WorkflowID(op.On(), op.Kind)
		}, time.Minute, 100*time.Millisecond, query)
	}
}

// described is an operation that says all there is to say, and waits.
func described(ctx workflow.Context, _ durable.OperationInput) error {
	for _, err := range []error{
		durable.DescribeServer(ctx, "web-1.example.org", project(ctx)), durable.DescribeHosts(ctx, "node-1", "node-2"),
		durable.DescribePhase(ctx, durable.PhaseUndoing),
	} {
		if err != nil {
			return err
		}
	}
	return workflow.Sleep(ctx, time.Hour)
}

func project(ctx workflow.Context) string {
	p, _ := workflow.GetTypedSearchAttributes(ctx).GetKeyword(durable.AttributeProject)
	return p
}

func TestAnAttributeOfAnotherTypeIsRefused(t *testing.T) {
	t.Parallel()
	c, namespace := bareClient(t)
	_, err := c.OperatorService().AddSearchAttributes(t.Context(), &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: map[string]enumspb.IndexedValueType{"Phase": enumspb.INDEXED_VALUE_TYPE_INT},
	})
	require.NoError(t, err)
	require.ErrorContains(t, durable.RegisterSearchAttributes(t.Context(), c, namespace), "Phase")
}

// Helpers work in the test environment, too.
func TestDescribeInTheTestEnvironment(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context) (string, error) {
		if err := durable.DescribePhase(ctx, durable.PhaseWaiting); err != nil {
			return "", err
		}
		phase, _ := workflow.GetTypedSearchAttributes(ctx).GetKeyword(durable.AttributePhase)
		return phase, nil
	}, workflow.RegisterOptions{Name: "w"})
	env.ExecuteWorkflow("w")
	var got string
	require.NoError(t, env.GetWorkflowResult(&got))
	require.Equal(t, "waiting", got)
}
