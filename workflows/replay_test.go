package workflows_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"

	"strongroom/workflows"
)

func replayer() worker.WorkflowReplayer {
	r := worker.NewWorkflowReplayer()
	workflows.Register(r)
	return r
}

// TestReplay: operations that an earlier release began go on under this one.
// The histories are recorded with `./task history:record -- RELEASE`.
func TestReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/history/*/*.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 10)
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, replayer().ReplayWorkflowHistoryFromJSONFile(nil, file))
		})
	}
}
