package integration_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"strongroom/deploy/await"
	"strongroom/integration/seed"
)

// Where an operation is cut off: before and after an activity.
const (
	before = "@before"
	after  = "@after"
)

// share: one of so many of an operation's points are in a sample at least.
const share = 5

// cutsOf gives the points at which this run cuts an operation off: one before an
// activity, one after another, and some more where there are many; all of them in a full
// run, and for who asks for one by its name. On the real cloud a sample is of the
// activities that call its services: what hosts do is sampled on the local back end.
func cutsOf(operation string, activities []string) []string {
	all := bothSides(activities)
	points := all
	if sampled() {
		if leansOn() == openStack {
			activities = slices.DeleteFunc(slices.Clone(activities), func(a string) bool { return !callsAService(a) })
		}
		points = cutsIn(diceOf(operation), activities)
	}
	chose(operation, points, len(all))
	return points
}

// cutsOfAll is cutsOf for an operation that only the real cloud has: what hosts do is in its samples, too.
func cutsOfAll(operation string, activities []string) []string {
	all := bothSides(activities)
	points := all
	if sampled() {
		points = cutsIn(diceOf(operation), activities)
	}
	chose(operation, points, len(all))
	return points
}

// sampled reports whether the run has a sample of the points, and not all of them.
func sampled() bool { return !full() && !strings.Contains(seed.Asked(), "/") }

func callsAService(activity string) bool {
	thing, _, _ := strings.Cut(activity, ".")
	return slices.Contains([]string{"key", "trust", "image", "object", "share", "port"}, thing)
}

func bothSides(activities []string) (points []string) {
	for _, activity := range activities {
		points = append(points, activity+before, activity+after)
	}
	return points
}

func cutsIn(d *rand.Rand, activities []string) []string {
	n := len(activities)
	if n == 0 {
		return nil
	}
	order := d.Perm(n)
	points := []string{activities[order[0]] + before, activities[order[n-1]] + after}
	rest := bothSides(activities)
	d.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	for _, point := range rest {
		if len(points)*share < 2*n && !slices.Contains(points, point) {
			points = append(points, point)
		}
	}
	return points
}

// killOf is a part of strongroom that is killed at a moment.
type killOf struct{ part, moment string }

// killsOf gives the parts and moments of this run for an operation: every moment for every part, or each
// part once, and each moment if there are no fewer parts. On the real cloud a sample is
// of the first three parts, which log in to its services.
func killsOf(operation string, parts, moments []string) (kills []killOf) {
	all := len(parts) * len(moments)
	if sampled() {
		if leansOn() == openStack {
			parts = parts[:min(3, len(parts))]
		}
		order := diceOf(operation).Perm(len(moments))
		for i, part := range parts {
			kills = append(kills, killOf{part, moments[order[i%len(order)]]})
		}
	} else {
		for _, part := range parts {
			for _, moment := range moments {
				kills = append(kills, killOf{part, moment})
			}
		}
	}
	var names []string
	for _, k := range kills {
		names = append(names, k.part+"/"+k.moment)
	}
	chose(operation, names, all)
	return kills
}

// troublesOf gives what this run does to an operation: a worker dies before or after an activity, or
// a part dies when the operation comes to one ("control at domain.Stop"): all of it, or at most as
// many, in any order.
func troublesOf(operation string, activities, parts, moments []string, most int) []string {
	all := bothSides(activities)
	for _, part := range parts {
		for _, moment := range moments {
			all = append(all, part+" at "+moment)
		}
	}
	some := all
	if sampled() {
		some = some[:0:0]
		for _, i := range diceOf(operation).Perm(len(all))[:min(most, len(all))] {
			some = append(some, all[i])
		}
	}
	chose(operation, some, len(all))
	return some
}

// stepsOf gives the steps of an operation in whose middle this run does something to it:
// all, or two of them.
func stepsOf(operation string, steps []string) []string {
	some := steps
	if sampled() {
		order := diceOf(operation + " steps").Perm(len(steps))[:2]
		slices.Sort(order)
		some = []string{steps[order[0]], steps[order[1]]}
	}
	chose(operation+" steps", some, len(steps))
	return some
}

// someMoment lets up to a second pass: what is at work is at another point of it in each run.
func someMoment(t *testing.T, of string) {
	t.Helper()
	await.Quiet(t, time.Duration(diceOf(of).IntN(int(time.Second))), "a moment of "+of)
}

func diceOf(purpose string) *rand.Rand { return seed.Dice(seed.Text(), leansOn()+" "+purpose) }

// tally counts the points of this run, by operation.
var tally struct {
	sync.Mutex
	lines      []string
	chosen, of int
	again      []string // clouds that did not start at first
}

func chose(operation string, points []string, of int) {
	tally.Lock()
	defer tally.Unlock()
	tally.chosen, tally.of = tally.chosen+len(points), tally.of+of
	tally.lines = append(tally.lines, fmt.Sprintf("  %s: %d of %d: %s", operation, len(points), of, strings.Join(points, ", ")))
}

// startsAgain notes a cloud that did not start at first.
func startsAgain(name string, err error) {
	fmt.Printf("cloud %s did not start, and is started again: %v\n", name, err)
	tally.Lock()
	defer tally.Unlock()
	first, _, _ := strings.Cut(err.Error(), "\n")
	tally.again = append(tally.again, fmt.Sprintf("back end %s: cloud %s started at the second try: %s\n", leansOn(), name, first))
}

// printTally says which points the run had, and which clouds did not start at first.
func printTally() {
	tally.Lock()
	defer tally.Unlock()
	fmt.Print(strings.Join(tally.again, ""))
	if tally.of > 0 {
		fmt.Printf("back end %s, %s=%s: %d of %d fault points\n%s\n", leansOn(), seed.Variable, seed.Text(), tally.chosen, tally.of, strings.Join(tally.lines, "\n"))
	}
}
