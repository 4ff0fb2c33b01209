package record_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// A point of no return closes the step before it and opens the one after it, in one
// transaction (C7). Where it is refused only the close is written; where it was passed
// before, another operation may have the server and the answer is yes.
func TestADecisionClosesAndOpens(t *testing.T) {
	t.Parallel()
	b := setup(t)
	disks := func(in durable.OperationInput) map[string]compute.Rotated {
		return map[string]compute.Rotated{b.disk(in).String(): {Secret: compute.SecretID{UUID: uuid.New()}}}
	}
	for name, decide := range map[string]func(in durable.OperationInput, c *record.Close, o *record.Open) func() error{
		"rotate": func(in durable.OperationInput, c *record.Close, o *record.Open) func() error {
			to := record.RotateInput{OperationInput: in, Disks: disks(in), Close: c, Open: o}
			return func() error { return b.Rotate(b.ctx, to) }
		},
		"unrescue": func(in durable.OperationInput, c *record.Close, o *record.Open) func() error {
			b.Exec("INSERT INTO server_disks (id, server_id, role, device_name, size_mb) VALUES ($1, $2, 'rescue', '/dev/vdb', 1)", uuid.New(), in.Server)
			return func() error {
				return b.Unrescue(b.ctx, record.UnrescueInput{OperationInput: in, Close: c, Open: o})
			}
		},
		"rebuild": func(in durable.OperationInput, c *record.Close, o *record.Open) func() error {
			b.Exec("UPDATE operations SET arguments = '{}'")
			to := compute.Disk{ID: compute.DiskID{UUID: uuid.New()}, Role: compute.RootDisk}
			return func() error {
				return b.Rebuild(b.ctx, record.RebuildInput{OperationInput: in, Disks: []compute.Disk{to}, Close: c, Open: o})
			}
		},
	} {
		begin := func() (durable.OperationInput, func() error) {
			in := b.server(compute.OpCreate)
			old := thing(in, compute.ThingKeySecret, "old"+in.Server.String())
			require.NoError(t, b.open(in, record.Open{Event: "before", Things: []compute.Thing{old}}))
			return in, decide(in, &record.Close{Event: "before", Present: []compute.Thing{old}},
				&record.Open{Event: "after", Things: []compute.Thing{thing(in, compute.ThingKeySecret, "new"+in.Server.String())}})
		}
		events := func(in durable.OperationInput) (closed, opened int) {
			return b.CountRows("SELECT count(*) FROM operation_events WHERE operation_id = $1 AND result = 'Success'", in.Operation),
				b.CountRows("SELECT count(*) FROM operation_events WHERE operation_id = $1 AND event = 'after' AND finished_at IS NULL", in.Operation)
		}
		in, do := begin()
		for range 2 {
			require.NoError(t, do(), name)
			closed, opened := events(in)
			require.Equal(t, []int{1, 1}, []int{closed, opened}, name)
			require.Equal(t, []compute.ThingState{compute.ThingPresent, compute.ThingIntended}, b.states(in.Server), name)
			// The second time it was decided, and the server is lost. What comes after it is opened all the same.
			b.supersede(in, compute.OpDelete, nil)
			b.Exec("DELETE FROM operation_events WHERE event = 'after'")
		}

		in, do = begin()
		b.supersede(in, compute.OpDelete, nil)
		before := b.Dump("servers", "server_disks")
		err := do()
		require.True(t, record.IsSuperseded(err), "%s: %v", name, err)
		require.Equal(t, before, b.Dump("servers", "server_disks"), name)
		closed, opened := events(in)
		require.Equal(t, []int{1, 0}, []int{closed, opened}, name)
		require.Equal(t, []compute.ThingState{compute.ThingPresent}, b.states(in.Server), name)
	}
}
