// Package await has tests wait for as long as something moves.
//
// A bound on the clock is a guess at how quick the machine is, and a machine that is busy with other
// tests breaks it though nothing is wrong. So nothing here asks how long a wait takes. A test says what
// moves while it waits: the steps of an operation, what a guest prints. Those are the witnesses. The wait
// fails when no witness has had a new value for three minutes of granted time, and prints what each
// said last: what stood still.
//
// Granted time is what the machine had for its tasks: the time on the clock, less the time in which some
// task had no CPU (/proc/pressure/cpu), but at least a tenth of the clock's. So three minutes are half
// an hour at most. Where the kernel does not tell of pressure it is ten minutes of the clock.
//
// A witness tells of progress, not of life. What changes for ever, a guest's clock or the attempts of a
// step that always fails, makes a wait without an end. A value that comes again is none: what goes back
// and forth between two states stands still.
package await

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	limit      = 3 * time.Minute  // of granted time
	clockLimit = 10 * time.Minute // where nobody knows what was granted

	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
	lookEvery  = 5 * time.Second // at witnesses, which cost more than most conditions

	kept = 10 // values of a witness that are printed
)

// Witness is something that moves while what is waited for comes nearer. Look gives its state in a few
// words, and "" where that cannot be had: the text of an error may name a port or a request, each time
// another one. It must neither fail the test nor block.
type Witness struct {
	Name string
	Look func() string
}

// For waits until a condition holds. With no witness it is a bound on the whole wait. The condition is
// tested in the goroutine of the test, so that it may require things.
func For(t testing.TB, what string, cond func() bool, witnesses ...Witness) {
	t.Helper()
	if err := Until(what, cond, witnesses...); err != nil {
		t.Fatal(err)
	}
}

// Every is For with one pause: for a test that measures, or that looks for what is there for a moment only.
func Every(t testing.TB, pause time.Duration, what string, cond func() bool, witnesses ...Witness) {
	t.Helper()
	if err := start(stalled, witnesses).until(what, cond, pause, pause); err != nil {
		t.Fatal(err)
	}
}

// Until is For where there is no test to fail, or more to be told than what stood still.
func Until(what string, cond func() bool, witnesses ...Witness) error {
	return start(stalled, witnesses).until(what, cond, firstPause, lastPause)
}

// Quiet lets granted time pass. It is for what must not happen meanwhile, where no event tells that it could
// have; for how long something is away that a test takes away; for a moment that dice choose. Whoever waits
// for something to happen has a condition for For.
func Quiet(t testing.TB, d time.Duration, why string) {
	t.Helper()
	t.Logf("for %v of granted time: %s", d, why)
	start(stalled, nil).quiet(d)
}

// wait is one wait.
type wait struct {
	pressure  func() (stalled time.Duration, known bool)
	begun     time.Time
	moved     moment // when a witness last had a new value
	looked    time.Time
	witnesses []*witness
}

type moment struct {
	at      time.Time
	stalled time.Duration
}

func start(pressure func() (time.Duration, bool), witnesses []Witness) *wait {
	w := &wait{pressure: pressure, begun: time.Now(), looked: time.Now()}
	for _, of := range witnesses {
		w.witnesses = append(w.witnesses, &witness{Witness: of, seen: map[string]bool{}})
	}
	w.moves()
	return w
}

func (w *wait) until(what string, cond func() bool, first, last time.Duration) error {
	for pause := first; !cond(); pause = min(pause*11/10, last) {
		if time.Since(w.looked) >= lookEvery {
			w.look()
		}
		if w.still() {
			return w.gaveUp(what)
		}
		time.Sleep(pause)
	}
	return nil
}

func (w *wait) quiet(d time.Duration) {
	for {
		granted, known := w.granted()
		if !known {
			granted = time.Since(w.begun)
		}
		if granted >= d {
			return
		}
		time.Sleep(max(d-granted, firstPause))
	}
}

// look has each witness tell.
func (w *wait) look() {
	for _, of := range w.witnesses {
		if of.look() {
			w.moves()
		}
	}
	w.looked = time.Now()
}

func (w *wait) moves() {
	w.moved.at = time.Now()
	w.moved.stalled, _ = w.pressure()
}

// still reports whether nothing has moved for too long.
func (w *wait) still() bool {
	if granted, known := w.granted(); known {
		return granted >= limit
	}
	return time.Since(w.moved.at) >= clockLimit
}

// granted is the time since something moved, as the machine had it for its tasks.
func (w *wait) granted() (granted time.Duration, known bool) {
	clock := time.Since(w.moved.at)
	now, known := w.pressure()
	return max(clock-(now-w.moved.stalled), clock/10), known
}

// gaveUp tells what stood still.
func (w *wait) gaveUp(what string) error {
	var text strings.Builder
	fmt.Fprintf(&text, "waited for %v, of which nothing moved for %v: %s", time.Since(w.begun).Round(time.Second), time.Since(w.moved.at).Round(time.Second), what)
	for _, of := range w.witnesses {
		fmt.Fprintf(&text, "\n%s:", of.Name)
		for _, v := range of.last {
			fmt.Fprintf(&text, "\n  %s %s", v.at.Format(time.TimeOnly), v.text)
		}
	}
	return errors.New(text.String())
}

// witness is a Witness with what it told.
type witness struct {
	Witness
	seen map[string]bool
	last []value // those that differ from the one before
}

type value struct {
	at   time.Time
	text string
}

// look has it tell, and reports whether that is new.
func (w *witness) look() bool {
	now := w.Look()
	if n := len(w.last); n == 0 || w.last[n-1].text != now {
		w.last = append(w.last, value{time.Now(), now})
		w.last = slices.Delete(w.last, 0, max(0, len(w.last)-kept))
	}
	if w.seen[now] {
		return false
	}
	w.seen[now] = true
	return true
}
