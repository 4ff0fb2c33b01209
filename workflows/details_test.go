package workflows_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/domain"
	"strongroom/compute"
)

// A9: the Temporal UI shows each step of an operation, undos too, with its host and how it
// ended.
func TestA9TheDetailsShowEachStep(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.fault = at(call{name: domain.Start.Name, nth: 1}, fault{before: fail})
	var env *testsuite.TestWorkflowEnvironment
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	require.Error(t, b.run(compute.OpCreate, in, func(e *testsuite.TestWorkflowEnvironment) { env = e }))
	value, err := env.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(t, err)
	var about sdkpb.WorkflowMetadata
	require.NoError(t, value.Get(&about))
	var rows [][]string
	for _, row := range regexp.MustCompile(`(?m)^\| (\w+) \| (\S*) ?\| \S+ \| (.+) \|$`).FindAllStringSubmatch(about.GetCurrentDetails(), -1) {
		rows = append(rows, row[1:])
	}
	host := "host-" + b.hosts[0].String()[:4]
	require.Equal(t, [][]string{
		{"step", "host", "result"},
		{"claim_host", "", "done"}, {"cache_image", host, "done"}, {"create_secrets", "", "done"}, {"create_disks", host, "done"},
		{"start_domain", host, errBroken.Message},
		{"undo_start_domain", host, "done"}, {"undo_create_disks", host, "done"}, {"undo_create_secrets", "", "done"},
	}, rows)
}
