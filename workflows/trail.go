package workflows

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// trail is the table of steps that the Temporal UI shows as the workflow's details.
type trail struct {
	phase durable.Phase
	steps []trailStep
}

type trailStep struct {
	event, host  string
	hostID       compute.HostID
	begun, ended time.Time
	waits        bool // for a host that does not answer
	result       string
}

// trailSteps is how many steps the table shows: the last ones.
const trailSteps = 50

// begin adds a step that begins now.
func (t *trail) begin(ctx workflow.Context, s *step, hostDown bool) {
	row := trailStep{event: s.event, begun: workflow.Now(ctx), waits: hostDown}
	if s.host != nil {
		row.host, row.hostID = s.host.Name, s.host.ID
	}
	t.steps = append(t.steps, row)
	if len(t.steps) > trailSteps {
		t.steps = t.steps[1:]
	}
	if hostDown {
		t.enter(ctx, durable.PhaseWaiting)
	}
	t.show(ctx)
}

// end ends the last step of the operation's forward way.
func (t *trail) end(ctx workflow.Context, failure error) {
	result := "done"
	if failure != nil {
		result = durable.FromTemporal(failure).Message
	}
	t.finish(ctx, len(t.steps)-1, result)
}

// closed ends the step of an undo, or of what comes after the point of no return.
func (t *trail) closed(ctx workflow.Context, end record.Close) {
	var host compute.HostID
	if end.Host != nil {
		host = end.Host.ID
	}
	for i := len(t.steps) - 1; i >= 0; i-- {
		if s := t.steps[i]; s.event == end.Event && s.hostID == host && s.ended.IsZero() {
			result := "done"
			if len(end.Waiting) > 0 {
				result = strconv.Itoa(len(end.Waiting)) + " things wait on the ledger: " + end.Waiting[0].Reason
			} else if end.Error != "" {
				result = end.Error
			}
			t.finish(ctx, i, result)
			return
		}
	}
}

func (t *trail) finish(ctx workflow.Context, i int, result string) {
	if i < 0 {
		return
	}
	t.steps[i].ended, t.steps[i].result = workflow.Now(ctx), result
	if t.phase == durable.PhaseWaiting && !slices.ContainsFunc(t.steps, func(s trailStep) bool { return s.waits && s.ended.IsZero() }) {
		t.enter(ctx, durable.PhaseRunning)
	}
	t.show(ctx)
}

// undoing shows that the operation is being undone.
func (t *trail) undoing(ctx workflow.Context) { t.enter(ctx, durable.PhaseUndoing) }

// elsewhere says that what was undone on one host begins anew on another.
func (t *trail) elsewhere(ctx workflow.Context) {
	t.phase = ""
	t.enter(ctx, durable.PhaseRunning)
}

// enter sets the search attribute Phase, when it changes.
func (t *trail) enter(ctx workflow.Context, phase durable.Phase) {
	if t.phase == phase || t.phase == durable.PhaseUndoing {
		return
	}
	t.phase = phase
	if err := durable.DescribePhase(ctx, phase); err != nil {
		workflow.GetLogger(ctx).Warn("the phase is not shown", "phase", phase, "error", err)
	}
}

func (t *trail) show(ctx workflow.Context) {
	var b strings.Builder
	b.WriteString("| step | host | took | result |\n|---|---|---|---|\n")
	for _, s := range t.steps {
		took := ""
		if !s.ended.IsZero() {
			took = s.ended.Sub(s.begun).Round(time.Millisecond).String()
		}
		b.WriteString("| " + strings.Join([]string{s.event, s.host, took, s.result}, " | ") + " |\n")
	}
	workflow.SetCurrentDetails(ctx, b.String())
}
