package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/durable"
)

// A9: the search attribute Phase, with which an operation starts as running, changes while it
// waits for a host without a late report, goes back when that answers, and says that it is
// being undone.
func TestA9ThePhaseIsShown(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		stale, fails bool
		want         []string
	}{
		"it succeeds": {},
		"it fails":    {fails: true, want: []string{"undoing"}},
		"its host has no late report and answers": {stale: true, want: []string{"waiting", "running"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			in := b.accept(compute.OpStop, compute.TaskPoweringOff, nil)
			if v.fails {
				b.fault = at(call{name: domain.Stop.Name, nth: 1}, fault{before: fail})
			}
			b.stale[b.hosts[0]] = v.stale
			var phases []string
			err := b.run(compute.OpStop, in, func(env *testsuite.TestWorkflowEnvironment) {
				env.OnUpsertTypedSearchAttributes(mock.MatchedBy(func(set temporal.SearchAttributes) bool {
					if phase, ok := set.GetKeyword(durable.AttributePhase); ok && (len(phases) == 0 || phases[len(phases)-1] != phase) {
						phases = append(phases, phase)
					}
					return true
				})).Return(nil)
			})
			require.Equal(t, v.fails, err != nil)
			require.Equal(t, v.want, phases)
		})
	}
}
