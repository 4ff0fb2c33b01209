package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/testsuite"

	"strongroom/compute"
)

// A step that runs on two hosts at once ends on each by itself, on the record and in what
// the Temporal UI shows.
func TestTheSameStepEndsOnEachHostByItself(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	file := b.row.server.ID.String() + "/copy"
	b.files[b.hosts[1].String()+" "+file] = true
	b.ledger[compute.Sighting{Kind: compute.ThingDiskFile, Place: b.hosts[1].String(), Name: file}] = compute.Thing{
		Kind: compute.ThingDiskFile, Place: b.hosts[1].String(), HostName: "slow", Name: file,
		Owner: compute.ServerOwner(b.row.server.ID), State: compute.ThingPresent,
	}
	in := b.deletion()
	var first, second string // how the step stands on each host while the second one is busy
	b.fault = func(c call) fault {
		if c.name != removal(compute.ThingDiskFile) || !strings.Contains(c.detail, `"slow"`) || c.attempt > 4 {
			return fault{}
		}
		return fault{before: func() error {
			b.mu.Lock()
			defer b.mu.Unlock()
			first, second = b.events[eventKey(in, "delete_from_host", b.host(0))], b.events[eventKey(in, "delete_from_host", b.host(1))]
			return compute.Errorf(compute.Unavailable, "busy")
		}}
	}
	var env *testsuite.TestWorkflowEnvironment
	require.NoError(t, b.run(compute.OpDelete, in, func(e *testsuite.TestWorkflowEnvironment) { env = e }))
	require.Equal(t, "done: ", first)
	require.Empty(t, second)
	b.gone(in)

	answer, err := env.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(t, err)
	var shown sdkpb.WorkflowMetadata
	require.NoError(t, answer.Get(&shown))
	took := map[string]string{} // by host
	for line := range strings.Lines(shown.GetCurrentDetails()) {
		if cells := strings.Split(line, " | "); strings.Contains(cells[0], "delete_from_host") {
			took[cells[1]] = cells[2]
		}
	}
	require.Len(t, took, 2, shown.GetCurrentDetails())
	for host, took := range took {
		spent, err := time.ParseDuration(took)
		require.NoError(t, err)
		require.Equal(t, host == "slow", spent > 2*time.Second, "%s: %s", host, took)
	}
}
