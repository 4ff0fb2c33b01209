package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/workflows"
)

// However much was removed at once, no call records more than a payload may hold, and
// offers are given back after everything that they may have been good for.
func TestWhatWasReapedIsRecordedInParts(t *testing.T) {
	t.Parallel()
	few := ledger.ReapedInput{Released: make([]compute.Thing, 3), Waiting: make([]compute.Thing, 4), Offers: make([]compute.Credential, 2)}
	require.Equal(t, []ledger.ReapedInput{few}, workflows.ReapedParts(few))
	many := ledger.ReapedInput{Released: make([]compute.Thing, 450), Waiting: make([]compute.Thing, 201), Offers: few.Offers}
	parts := workflows.ReapedParts(many)
	released, waiting := 0, 0
	for i, p := range parts {
		released, waiting = released+len(p.Released), waiting+len(p.Waiting)
		require.LessOrEqual(t, len(p.Released)+len(p.Waiting), workflows.ReapedAtOnce)
		require.Equal(t, i == len(parts)-1, len(p.Offers) > 0)
	}
	require.Equal(t, []int{450, 201}, []int{released, waiting})
}
