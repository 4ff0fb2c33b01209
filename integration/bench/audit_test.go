package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"strongroom/deploy/await"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
	"strongroom/schema/schematest"
	"strongroom/worker/audittest"
	"strongroom/workflows"
)

// auditPeakMB is what the control worker's process may have of memory at most, however
// large the ledger is.
const auditPeakMB = 200

// BenchmarkAudit audits clouds of 20 hosts that have ever more things, and as many secrets.
// It reports how long an audit takes, in all, for each 1,000 things, and for each 1,000 more
// than the size before has (what it takes to ask 20 hosts is in none of these), and the most
// memory that the control worker's process ever had. Temporal, PostgreSQL, the hosts and the
// services are other processes.
func BenchmarkAudit(b *testing.B) {
	var before struct{ thousands, seconds float64 }
	for _, rows := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			db, server := schematest.NewFixture(b), temporaltest.Start(b)
			inv, c := audittest.NewInventory(b, db, rows), temporaltest.Dial(b, server)
			_, err := db.DB.Exec(b.Context(), "ANALYZE")
			require.NoError(b, err)
			inv.Serve(b, c, nil)
			control := audittest.Start(b, server.Address(), server.Namespace(), db.DB)
			takesWork(b, c)
			var took []time.Duration
			for b.Loop() {
				took = append(took, audit(b, c, inv))
			}
			peak, seconds, thousands := control.PeakMB(), median(took).Seconds(), float64(rows)/1000
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(seconds, "s/audit")
			b.ReportMetric(seconds/thousands, "s/1000-rows")
			if before.thousands > 0 {
				b.ReportMetric((seconds-before.seconds)/(thousands-before.thousands), "s/1000-more-rows")
			}
			before.thousands, before.seconds = thousands, seconds
			b.ReportMetric(peak, "peak-MB")
			require.Less(b, peak, float64(auditPeakMB))
		})
	}
}

// takesWork waits until the control worker polls: its start is no part of an audit.
func takesWork(b *testing.B, c client.Client) {
	b.Helper()
	await.Every(b, 20*time.Millisecond, "the control worker polls", func() bool {
		queue, err := c.DescribeTaskQueue(b.Context(), durable.ControlQueue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
		return err == nil && len(queue.GetPollers()) > 0
	})
}

// audit runs one, and requires that it finds the planted differences and nothing else.
func audit(b *testing.B, c client.Client, inv *audittest.Inventory) time.Duration {
	b.Helper()
	start := time.Now()
	run, err := c.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{ID: workflows.AuditName, TaskQueue: durable.ControlQueue},
		workflows.AuditName, workflows.AuditInput{})
	require.NoError(b, err)
	var got workflows.AuditResult
	require.NoError(b, run.Get(b.Context(), &got))
	took := time.Since(start)
	require.Empty(b, got.Silent)
	require.Empty(b, got.Closed)
	require.Len(b, got.Findings, 50)
	require.Equal(b, inv.Findings, got.Findings)
	require.Zero(b, got.More)
	require.Equal(b, inv.Things, got.Things)
	return took
}
