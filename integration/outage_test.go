package integration_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"strongroom/compute"
	"strongroom/deploy/await"
	"strongroom/deploy/dev/process"
	"strongroom/durable"
	"strongroom/worker/pki"
)

// A4: PostgreSQL is away under operations that are in their middle. All complete once it
// is back, and none has written more than so many events into its history meanwhile.
func TestA4PostgreSQLIsAway(t *testing.T) {
	backends(t, local) // it is about the database
	const operations, extra = 20, 100
	away := time.Minute
	if full() {
		away = 10 * time.Minute
	}
	c := ownCloud(t)
	calm := c.createIdle(t, smallEncrypted)
	c.becomes(t, calm, "ACTIVE")
	usual := c.events(t, calm)

	middle := c.hold(t, "disk.Create@before")
	var ids []string
	for range operations {
		ids = append(ids, c.createIdle(t, smallEncrypted))
	}
	for _, id := range ids {
		c.reaches(t, id, "create_disks")
	}
	middle.waits(t, c.progress(ids[0]))
	back := c.silencePostgreSQL(t)
	middle.release() // what follows is to be recorded
	await.Quiet(t, away, "PostgreSQL is away")
	for _, id := range ids {
		require.LessOrEqual(t, c.events(t, id), usual+extra, "while the database is away")
	}
	back()
	for _, id := range ids {
		c.becomes(t, id, "ACTIVE")
	}
	for _, id := range ids {
		require.LessOrEqual(t, c.events(t, id), usual+extra, "where an undisturbed one has %d", usual)
	}
	c.nothingIsLeft(t)
}

var smallEncrypted = flavorSpec{"e2e-small-luks", 64, 1, 0, 0, map[string]string{"hw:ephemeral_encryption": "true"}}

// silencePostgreSQL has the database answer nobody, without an end of its process, which
// would be started again: its connections die, and new ones hang. back ends that.
func (c *testCloud) silencePostgreSQL(t *testing.T) (back func()) {
	t.Helper()
	pid, running := process.Named(c.PIDFile("postgres"))
	require.True(t, running)
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	back = func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	t.Cleanup(back)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	require.NoError(t, err)
	children := strings.Fields(string(text))
	require.NotEmpty(t, children)
	for _, child := range children {
		n, err := strconv.Atoi(child)
		require.NoError(t, err)
		_ = syscall.Kill(n, syscall.SIGKILL) // it may have ended by itself
	}
	return back
}

// events counts the events in the history of a server's newest operation.
func (c *testCloud) events(t *testing.T, id string) int {
	t.Helper()
	return len(c.history(t, id))
}

// newestWorkflow is the id of the workflow of a server's newest operation, but for a delete, which is one of its own.
func newestWorkflow(id string) string {
	return durable.WorkflowID(compute.ServerOwner(compute.ServerID{UUID: uuid.MustParse(id)}), compute.OpCreate) // as of any other
}

// history gives the events of a server's newest operation.
func (c *testCloud) history(t *testing.T, id string) (events []*historypb.HistoryEvent) {
	t.Helper()
	temporal, err := c.DialTemporal(pki.Operator)
	require.NoError(t, err)
	defer temporal.Close()
	for all := temporal.GetWorkflowHistory(t.Context(), newestWorkflow(id), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); all.HasNext(); {
		e, err := all.Next()
		require.NoError(t, err)
		events = append(events, e)
	}
	return events
}
