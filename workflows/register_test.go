package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/workflows"
)

// registered notes what is registered.
type registered struct {
	worker.WorkflowRegistry
	names []string
	own   []string // those that say themselves how they go along with new versions
}

func (r *registered) RegisterWorkflowWithOptions(_ any, options workflow.RegisterOptions) {
	r.names = append(r.names, options.Name)
	if options.VersioningBehavior != workflow.VersioningBehaviorUnspecified {
		r.own = append(r.own, options.Name)
	}
}

// C4: every kind whose operations do not end in their request has a workflow, and
// there is no other beside those that no request asks for, and those on hosts.
func TestEveryKindHasAWorkflow(t *testing.T) {
	t.Parallel()
	want := []string{workflows.JanitorName, workflows.AuditName, durable.WorkflowType(compute.OpDrain)}
	for _, kind := range []compute.OperationKind{compute.OpSecureVolumeOpen, compute.OpSecureVolumeClose, compute.OpSecureVolumeRotateKey} {
		want = append(want, durable.WorkflowType(kind))
	}
	for _, action := range compute.Actions {
		if !action.InRequest {
			want = append(want, durable.WorkflowType(action.Kind))
		}
	}
	var r registered
	workflows.Register(&r)
	require.ElementsMatch(t, want, r.names)
}

// A10: every workflow is pinned to the version on which it began, as the worker's default
// says, but for the janitor, which never ends.
func TestA10OnlyTheJanitorIsNotPinned(t *testing.T) {
	t.Parallel()
	var r registered
	workflows.Register(&r)
	require.Equal(t, []string{workflows.JanitorName}, r.own)
}
