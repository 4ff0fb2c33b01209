package workflows_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"strongroom"
	"strongroom/activities/record"
)

// decisions are the activities by which operations on servers pass the point of no return.
var decisions = []string{
	record.Rebuild.Name, record.ConfirmResize.Name, record.RevertResize.Name, record.Rotate.Name, record.HandOver.Name,
	record.Shelve.Name, record.Evacuate.Name, record.DropPort.Name, record.Unshelve.Name, record.Unrescue.Name, record.TPMBackup.Name,
}

// N2: nothing is decided in the workflow task in which an operation begins. Tried again, the operation would begin with what it has decided.
func TestN2NothingIsDecidedWhereAnOperationBegins(t *testing.T) {
	t.Parallel()
	made := map[string]bool{}
	for name, calls := range undisturbed(t) {
		if !slices.ContainsFunc(calls, func(c call) bool { return slices.Contains(decisions, c.name) }) {
			continue
		}
		s := subjects[name]
		b, ended := s.setup(t), false
		require.NoError(t, b.run(s.kind, b.accept(s.kind, s.task, s.arguments), func(env *testsuite.TestWorkflowEnvironment) {
			env.SetOnTimerFiredListener(func(string) { ended = true })
			env.SetOnActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) { ended = true })
			env.SetOnLocalActivityStartedListener(func(info *activity.Info, _ context.Context, _ []any) {
				if slices.Contains(decisions, info.ActivityType.Name) {
					made[info.ActivityType.Name] = true
					assert.True(t, ended, "%s: %s", name, info.ActivityType.Name)
				}
			})
		}))
	}
	require.ElementsMatch(t, decisions, slices.Collect(maps.Keys(made)))
}

// N2: so it is in the histories that a server of Temporal has written. An operation that had an answer before sleeps for nothing.
func TestN2NothingIsDecidedInTheFirstTaskOfAHistory(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "history", strongroom.Version(), "*.json"))
	require.NoError(t, err)
	decided := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		h, err := client.HistoryFromJSON(bytes.NewReader(text), client.HistoryJSONOptions{})
		require.NoError(t, err)
		first, timers := int64(0), 0
		for _, e := range h.Events {
			if e.GetTimerStartedEventAttributes() != nil {
				timers++
			}
			marker := e.GetMarkerRecordedEventAttributes()
			if marker == nil || marker.MarkerName != "LocalActivity" {
				continue
			}
			var of struct{ ActivityType string }
			require.NoError(t, json.Unmarshal(marker.Details["data"].Payloads[0].Data, &of))
			if of.ActivityType == record.Begin.Name {
				first = marker.WorkflowTaskCompletedEventId
			}
			if slices.Contains(decisions, of.ActivityType) || of.ActivityType == record.LiveMigrated.Name {
				decided++
				require.NotEqual(t, first, marker.WorkflowTaskCompletedEventId, "%s: %s", file, of.ActivityType)
			}
		}
		if of, ok := map[string]int{"rebuild.json": 0, "confirm.json": 1}[filepath.Base(file)]; ok {
			require.Equal(t, of, timers, file)
		}
	}
	require.Greater(t, decided, 10)
}
