package worker_test

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"strongroom/compute"
	"strongroom/deploy/dev/temporal"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
	"strongroom/integration/seed"
	"strongroom/schema/schematest"
	"strongroom/worker/audittest"
	"strongroom/workflows"
)

func TestMain(m *testing.M) {
	audittest.Main()
	seed.Deep("ops", TestA1AnAuditInManyRuns, TestA3TwoHundredDeletesOnASilentHostHoldUpNoOther, TestA10UpgradeInPlaceAfterTheOldWorkersStopped, TestA10UpgradeInPlaceUnderRunningOperations)
	os.Exit(m.Run())
}

// atOnce is how many hosts and services an audit asks side by side.
const atOnce = 8

// A1: an audit of a large cloud, whose control worker is killed in the middle, finds what
// is wrong and nothing else, within what Temporal bears.
func TestA1AnAuditOf100000Rows(t *testing.T) {
	t.Parallel()
	rows := 10_000
	if os.Getenv("STRONGROOM_TEST_FULL") != "" {
		rows = 100_000
	}
	a := startAudited(t, rows, temporaltest.Start(t))
	a.survivesItsWorker(rows / compute.SeenPage / 2)
}

// A1, P22: an audit of 6,000 rows ends; where a history may grow to a few pages only, it is
// many runs.
func TestA1AnAuditInManyRuns(t *testing.T) {
	t.Parallel()
	server := temporaltest.Start(t, func(c *temporal.Config) {
		c.Dynamic = map[string]any{"limit.historySize.suggestContinueAsNew": 60000}
	})
	a := startAudited(t, 6_000, server)
	cost := a.survivesItsWorker(8)
	require.Greater(t, cost.Runs, 5)
	require.Less(t, cost.Largest, 1<<20)
}

// audited is a cloud that is audited.
type audited struct {
	*audittest.Inventory
	t      *testing.T
	db     *schematest.Fixture
	server *temporal.Server
	client client.Client

	mu      sync.Mutex
	waiting map[string]bool // those asked, until as many are as an audit asks at once
	all     chan struct{}
	pages   int // that hosts gave since
	kill    func()
	killAt  int
}

func startAudited(t *testing.T, rows int, server *temporal.Server) *audited {
	t.Helper()
	a := &audited{t: t, db: schematest.NewFixture(t), server: server, waiting: map[string]bool{}, all: make(chan struct{})}
	a.Inventory = audittest.NewInventory(t, a.db, rows)
	a.client = temporaltest.Dial(t, server)
	a.Serve(t, a.client, a.asked)
	return a
}

// asked holds the first ones that are asked until the audit asks others beside them, and
// ends the control worker later on.
func (a *audited) asked(place string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.all:
		if a.pages++; a.pages == a.killAt {
			a.kill()
		}
		return
	default:
	}
	if a.waiting[place] = true; len(a.waiting) == atOnce {
		close(a.all)
	}
	a.mu.Unlock()
	defer a.mu.Lock()
	select {
	case <-a.all:
	case <-time.After(time.Minute): // the call has failed by now
	}
}

// survivesItsWorker audits and kills the control worker after some pages.
func (a *audited) survivesItsWorker(pages int) audittest.Histories {
	t := a.t
	t.Helper()
	process := a.start()
	killed := make(chan struct{})
	a.killAt, a.kill = pages, func() { process.Kill(); close(killed) }
	run, err := a.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: workflows.AuditName, TaskQueue: durable.ControlQueue},
		workflows.AuditName, workflows.AuditInput{})
	require.NoError(t, err)
	first := run.GetRunID() // that of the last run, once it has ended
	select {
	case <-killed:
	case <-time.After(5 * time.Minute):
		require.Fail(t, "the audit did not come so far", "asked at once: %d", len(a.waiting))
	}
	a.start()
	var got workflows.AuditResult
	require.NoError(t, run.Get(t.Context(), &got))

	require.Empty(t, got.Silent)
	require.Empty(t, got.Closed)
	require.Len(t, got.Looked, len(a.Hosts)+6)
	require.Len(t, got.Findings, 50)
	require.Len(t, a.Planted(), 17, "each kind of difference, on hosts and in the key store: no secret waits for a host")
	require.Equal(t, a.Findings, got.Findings)
	require.Zero(t, got.More)
	require.Equal(t, a.Things, got.Things)
	require.Zero(t, a.db.CountRows("SELECT (SELECT count(*) FROM audits) + (SELECT count(*) FROM audit_seen) + (SELECT count(*) FROM audit_looked)"))

	cost := audittest.Measure(t, a.client, run.GetID(), first)
	t.Logf("%d things on the ledger: %+v", got.Things, cost)
	require.LessOrEqual(t, cost.Payload, 256<<10)
	require.LessOrEqual(t, cost.Largest, 5<<20)
	return cost
}

func (a *audited) start() *audittest.Process {
	return audittest.Start(a.t, a.server.Address(), a.server.Namespace(), a.db.DB)
}
