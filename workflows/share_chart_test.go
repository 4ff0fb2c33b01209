package workflows_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/mount"
	"strongroom/activities/share"
	"strongroom/compute"
)

// phi is a share that the server does not have: φ in the document's chart.
const phi = compute.ShareStatus("φ")

// shareStep is what happens to a server with shares in a sequence.
type shareStep string

const (
	attachShare shareStep = "attach"
	cutAttach   shareStep = "attach, cut off by a reset of the server's state"
	detachShare shareStep = "detach"
	attachLive  shareStep = "attach while it runs"
	detachLive  shareStep = "detach while it runs"
	startVM     shareStep = "start"
	stopVM      shareStep = "stop"
	rebootVM    shareStep = "hard reboot"
	takeShare   shareStep = "the share's rule is taken away"
	deleteVM    shareStep = "delete"
)

// edge is a step with how it ended.
type edge struct {
	step shareStep
	ok   bool
}

const isAttaching, inactive, active, inError = compute.ShareAttaching, compute.ShareInactive, compute.ShareActive, compute.ShareError

// documentsChart is the status chart of the shares document, written down once more: what becomes of the share that
// a step is about, by the status that it had. Those of a step on the server are all of its shares; others stay as
// they are. Of a step that failed it is what becomes of a share that was not the cause.
var documentsChart = map[edge]map[compute.ShareStatus][]compute.ShareStatus{
	{attachShare, true}:  {phi: {inactive}},
	{attachShare, false}: {phi: {inError}},
	{cutAttach, true}:    {phi: {isAttaching}},
	{detachShare, true}:  {isAttaching: {phi}, inactive: {phi}, active: {phi}, inError: {phi}},
	{detachShare, false}: {isAttaching: {inError}, inactive: {inError}, active: {inError}, inError: {inError}},
	{attachLive, true}:   {phi: {active}}, // beyond the document
	{attachLive, false}:  {phi: {inError}},
	{detachLive, true}:   {isAttaching: {phi}, inactive: {phi}, active: {phi}, inError: {phi}},
	{detachLive, false}:  {isAttaching: {inError}, inactive: {inError}, active: {inError}, inError: {inError}},
	{startVM, true}:      {inactive: {active}, inError: {active}},
	{startVM, false}:     {inactive: {inactive}, inError: {inError}, isAttaching: {isAttaching}},
	{stopVM, true}:       {active: {inactive}, inError: {inError}},
	{stopVM, false}:      {active: {active}, inError: {inError}},
	{rebootVM, true}:     {active: {active}, inactive: {active}, inError: {active}},
	{rebootVM, false}:    {active: {active, inactive}, inactive: {inactive}, inError: {inError}, isAttaching: {isAttaching}}, // it may not have been stopped yet
	{takeShare, true}:    {active: {inError}, inactive: {inError}},
	{deleteVM, true}:     {isAttaching: {phi}, inactive: {phi}, active: {phi}, inError: {phi}},
}

// allowed is what may become of a share by a step.
func (w *shareWalk) allowed(e edge, id compute.ShareID, before compute.ShareStatus) []compute.ShareStatus {
	own := strings.Contains(w.hit.detail, id.String())
	booting := !e.ok && (e.step == startVM || e.step == rebootVM)
	failsToMount := booting && own && (w.hit.name == mount.Mount.Name || w.hit.name == share.Allow.Name)
	staysMounted := w.stuck || own && w.hit.name == removal(compute.ThingShareMount)
	failsToUnmount := e.step == stopVM && e.ok && staysMounted
	if booting && staysMounted { // by the undo, if it was mounted by then
		return append([]compute.ShareStatus{inError}, documentsChart[e][before]...)
	}
	if (failsToMount || failsToUnmount) && before != isAttaching {
		return []compute.ShareStatus{inError}
	}
	return documentsChart[e][before]
}

// shareWalk is a random sequence of steps on one server.
type shareWalk struct {
	*bench
	*rand.Rand
	shares []compute.ShareID
	lost   map[string]bool // uses whose access was taken away
	hit    call            // that failed in this step
	trail  []string
}

func (w *shareWalk) status(id compute.ShareID) compute.ShareStatus {
	for _, m := range w.row.server.Shares {
		if m.Share == id {
			return m.Status
		}
	}
	return phi
}

func (w *shareWalk) all() (out []compute.ShareStatus) {
	for _, id := range w.shares {
		out = append(out, w.status(id))
	}
	return out
}

// possible are the steps that the API lets pass, and what happens without it.
func (w *shareWalk) possible() (steps []shareStep, of []compute.ShareID) {
	add := func(s shareStep, id compute.ShareID) { steps, of = append(steps, s), append(of, id) }
	vm := w.row.server.VMState
	for _, id := range w.shares {
		switch status := w.status(id); {
		case status == phi && slices.Contains(compute.ShareAttach.Transition.From, vm):
			add(attachShare, id)
			if w.IntN(4) == 0 {
				add(cutAttach, id)
			}
		case status != phi && slices.Contains(compute.ShareDetach.Transition.From, vm):
			add(detachShare, id)
		case status == phi && vm == compute.VMActive:
			add(attachLive, id)
		case status != phi && vm == compute.VMActive:
			add(detachLive, id)
		}
		if status := w.status(id); (status == active || status == inactive) && w.access[compute.ShareUse(id, w.row.server.ID)] {
			add(takeShare, id)
		}
	}
	switch vm {
	case compute.VMStopped:
		add(startVM, compute.ShareID{})
	case compute.VMActive:
		add(stopVM, compute.ShareID{})
		add(rebootVM, compute.ShareID{})
	case compute.VMError:
		add(rebootVM, compute.ShareID{})
	}
	return steps, of
}

// disturb may have one call of the next step fail, before or after its work, or mounts not end.
func (w *shareWalk) disturb() (what string) {
	nth, n := 1+w.IntN(14), 0
	w.hit = call{}
	switch w.IntN(5) {
	case 0, 1:
		f, when := fault{before: fail}, "before"
		if w.IntN(2) == 0 {
			f, when = fault{after: fail}, "after"
		}
		w.fault = func(c call) fault {
			if c.attempt > 1 {
				return fault{}
			}
			if n++; n == nth {
				w.hit = c
				return f
			}
			return fault{}
		}
		return fmt.Sprintf(", if it has a call %d that fails %s its work", nth, when)
	case 2:
		w.stuck = true
		return ", mounts do not end"
	}
	return ""
}

func (w *shareWalk) do(step shareStep, id compute.ShareID) error {
	switch step {
	case attachShare:
		w.writeDown(id)
		return w.bench.shares(compute.OpShareAttach, compute.TaskAttachingShare, compute.ShareArguments{Share: id, Address: "192.0.2.1"})
	case cutAttach:
		w.writeDown(id)
	case attachLive:
		w.writeDown(id)
		return w.bench.shares(compute.OpShareAttach, compute.TaskAttachingShare, live(id))
	case detachShare:
		return w.detach(id)
	case detachLive:
		return w.detachLive(id)
	case startVM:
		return w.bench.shares(compute.OpStart, compute.TaskPoweringOn, nil)
	case stopVM:
		return w.bench.shares(compute.OpStop, compute.TaskPoweringOff, nil)
	case rebootVM:
		return w.bench.shares(compute.OpReboot, compute.TaskRebootingHard, compute.RebootArguments{Hard: true})
	case takeShare: // and the watch has seen it
		use := compute.ShareUse(id, w.row.server.ID)
		delete(w.access, use)
		w.lost[use] = true
		for i := range w.row.server.Shares {
			if m := &w.row.server.Shares[i]; m.Share == id {
				m.Status = m.Status.After(compute.ShareTaken)
			}
		}
	case deleteVM:
		return w.run(compute.OpDelete, w.deletion(), nil)
	}
	return nil
}

// step does a step and holds what became of the shares against the chart.
func (w *shareWalk) step(step shareStep, id compute.ShareID) {
	t := w.t
	t.Helper()
	how := ""
	if step != takeShare && step != cutAttach && step != deleteVM {
		how = w.disturb()
	}
	before := w.all()
	err := w.do(step, id)
	after := w.all()
	if step == deleteVM && w.row.deleted {
		after = slices.Repeat([]compute.ShareStatus{phi}, len(w.shares))
	}
	w.trail = append(w.trail, fmt.Sprintf("%s %d%s: %v → %v, %s (%s; %v)", step, slices.Index(w.shares, id), how, before, after, w.row.server.VMState, w.hit, err))
	for i, one := range w.shares {
		allowed := []compute.ShareStatus{before[i]}
		if id == one || id == (compute.ShareID{}) && before[i] != phi {
			allowed = w.allowed(edge{step, err == nil}, one, before[i])
		}
		require.Contains(t, allowed, after[i], w.story("share %d went from %s to %s", i, before[i], after[i]))
	}
	w.fault, w.stuck = nil, false
	w.reapAll()
	w.holds()
	w.forget()
}

// holds requires what is so after every step: what runs has its shares, what is off has no mount, and all
// that is there is on record.
func (w *shareWalk) holds() {
	t := w.t
	t.Helper()
	server := w.row.server
	for use := range w.lost {
		if w.access[use] {
			delete(w.lost, use) // a start made it anew
		}
	}
	require.Empty(t, w.broken, w.story("broken"))
	runs := slices.Contains(w.power(), compute.PowerRunning)
	require.Empty(t, slices.DeleteFunc(w.audit(), func(f compute.Finding) bool {
		id, _, err := compute.ParseShareUse(f.Name)
		// What a server in ERROR is parted from waits for the end of its guest (SH-17).
		waits := err == nil && runs && w.status(id) == phi && (f.What == compute.Behind || f.What == compute.Failing)
		return waits || f.Kind == compute.ThingShareAccess && w.lost[f.Name]
	}), w.story("the audit"))
	if w.row.deleted {
		return
	}
	for _, m := range server.Shares {
		mounted := false
		for key := range w.mounts {
			mounted = mounted || strings.HasSuffix(key, " "+compute.ShareUse(m.Share, server.ID))
		}
		if server.VMState == compute.VMStopped {
			require.NotEqual(t, active, m.Status, w.story("it is off"))
			require.False(t, mounted, w.story("it is off"))
		}
		if m.Status == active {
			require.True(t, mounted, w.story("share %s is active", m.Share))
		}
		require.NotEqual(t, compute.ShareDetaching, m.Status, w.story("nobody is at work on it"))
	}
}

func (w *shareWalk) story(format string, args ...any) string {
	return fmt.Sprintf(format, args...) + " after:\n" + strings.Join(w.trail, "\n")
}

// SH-32, SH-10, SH-11, SH-12, SH-13, SH-15, SH-19: whatever is done with a server and its shares, in whatever order
// and whatever fails meanwhile, each share goes along the edges of the document's chart, and in the end nothing is
// left. A sequence is made of its seed alone.
func TestSH32SharesGoAlongTheChart(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			w := &shareWalk{bench: stopped(t), Rand: rand.New(rand.NewPCG(seed, 16)), lost: map[string]bool{}}
			for i := range 3 {
				w.shares = append(w.shares, compute.ShareID{UUID: uuid.NewSHA1(uuid.NameSpaceOID, []byte{byte(i)})})
			}
			w.shareProtocol = []share.Protocol{share.CephFS, share.Local, share.NFS}[seed%3]
			for range 12 {
				steps, of := w.possible()
				i := w.IntN(len(steps))
				w.step(steps[i], of[i])
			}
			w.stuck = w.IntN(3) == 0
			w.step(deleteVM, compute.ShareID{})
			require.Empty(t, w.things(), w.story("left"))
			require.Empty(t, w.ledger, w.story("left"))
		})
	}
}
