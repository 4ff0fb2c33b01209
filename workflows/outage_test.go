package workflows_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/record"
	"strongroom/compute"
)

const (
	monthAway = 30 * 24 * time.Hour
	// What a month may cost an operation: far below what a history may have (51,200
	// events). A record that refuses each write is asked once an hour in the end.
	mostEvents, mostRefused = 500, 5000
	// Events of a try of a local activity at most (its mark, a timer and the workflow
	// tasks around them), and of an activity however often it is tried.
	eventsOfATry, eventsOfAnActivity = 6, 6
)

// outage is a bench whose record gives no answer for a month, or none but err.
type outage struct {
	*bench
	err   error
	after string // the activity whose first call it follows
	undo  bool   // that call fails, so that an undo meets the outage

	env   *testsuite.TestWorkflowEnvironment
	mu    sync.Mutex
	begun time.Time
}

func (o *outage) fault(c call) fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case c.name == o.after && o.begun.IsZero():
		o.begun = o.env.Now()
		if o.undo {
			return fault{after: fail}
		}
	case !o.begun.IsZero() && o.env.Now().Sub(o.begun) < monthAway && isRecord(c.name):
		return fault{before: func() error { return o.err }}
	}
	return fault{}
}

func isRecord(name string) bool {
	return strings.HasPrefix(name, "record.") || strings.HasPrefix(name, "ledger.") || strings.HasPrefix(name, "placement.")
}

// events bounds the events of the operation's history: local activities cost some for each
// try, others for each call.
func (o *outage) events() int {
	events := 0
	for _, c := range o.calls {
		switch {
		case c.local:
			events += eventsOfATry
		case c.attempt == 1:
			events += eventsOfAnActivity
		}
	}
	return events
}

// A12: a record that is away for a month does not fill the history of an operation that it
// meets while that is undone, or after its point of no return; nor does one that refuses
// each write.
func TestA12AMonthWithoutARecord(t *testing.T) {
	t.Parallel()
	away := compute.Errorf(compute.Unavailable, "connection refused")
	for name, v := range map[string]struct {
		subject, after string
		undo           bool
		err            error
	}{
		"under an undo":                  {"spawn", "domain.Start", true, away},
		"after the point of no return":   {"rebuild", record.Rebuild.Name, false, away},
		"refusing under an undo":         {"spawn", "domain.Start", true, errBroken},
		"refusing after the last chance": {"rebuild", record.Rebuild.Name, false, errBroken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := subjects[v.subject]
			o := &outage{bench: s.setup(t), err: v.err, after: v.after, undo: v.undo}
			in := o.accept(s.kind, s.task, s.arguments)
			o.bench.fault = o.fault
			err := o.run(s.kind, in, func(env *testsuite.TestWorkflowEnvironment) { o.env = env })
			require.Equal(t, v.undo, err != nil, "%v", err)
			require.GreaterOrEqual(t, o.env.Now().Sub(o.begun), monthAway)
			require.Less(t, o.events(), map[bool]int{true: mostEvents, false: mostRefused}[errors.Is(v.err, away)])
			if !slices.Contains([]compute.OperationState{compute.OperationFailed, compute.OperationSucceeded}, o.operations[in.Operation].State) {
				require.Fail(t, "it is not settled", o.operations[in.Operation].State)
			}
		})
	}
}
