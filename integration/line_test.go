package integration_test

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// kind says what a test needs besides a place. Lower kinds come first: those that last long, or wait for each other, too.
type kind int

const (
	alone      kind = iota // a cloud that is made for the test
	onNeutron              // one at a time, for the machine has one Open vSwitch
	onTwoHosts             // a cloud with two hosts
	onManila               // a cloud with Manila and Ceph
	ofItsOwn               // a cloud of its own, or a seat on the shared one
)

// lasting are tests that take longer than all others of their kind, and come before them: otherwise they end the run alone.
var lasting = map[string]bool{"TestServersOfEncryptedImages": true}

// A line lends places to the tests that wait for them, in the order of their kinds and names but for those that are lasting, so that the tests of each run come in the same order.
type line struct {
	mu      sync.Mutex
	places  int
	slots   map[kind][]*slot // what is lent with a place of that kind; a kind that is not here needs none
	waiting []*waiting
	open    bool
}

type waiting struct {
	name   string
	kind   kind
	places int
	got    chan *slot
}

// turn is 0 of a lasting test, and 1 of any other.
func (w *waiting) turn() int {
	if lasting[w.name] {
		return 0
	}
	return 1
}

// gathering is how long the first test in a line waits for the others, which the framework lets go together.
const gathering = 300 * time.Millisecond

// borrow takes places until the test ends.
func (l *line) borrow(t *testing.T, of kind, places int) *slot {
	t.Helper()
	s := l.take(t.Name(), of, places)
	t.Cleanup(func() { l.give(of, places, s) })
	return s
}

// take waits for places, and for what the kind needs.
func (l *line) take(name string, of kind, places int) *slot {
	w := &waiting{name: name, kind: of, places: places, got: make(chan *slot, 1)}
	l.mu.Lock()
	if len(l.waiting) == 0 && !l.open {
		time.AfterFunc(gathering, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.open = true
			l.lend()
		})
	}
	l.waiting = append(l.waiting, w)
	l.lend()
	l.mu.Unlock()
	return <-w.got
}

// give brings back what take gave.
func (l *line) give(of kind, places int, s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.places += places
	if _, ok := l.slots[of]; ok {
		l.slots[of] = append(l.slots[of], s)
	}
	l.lend()
}

// lend serves who is first, passing by those whose kind has nothing left. It needs the lock.
func (l *line) lend() {
	slices.SortFunc(l.waiting, func(a, b *waiting) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.turn(), b.turn()), cmp.Compare(a.name, b.name))
	})
	for l.open {
		next := slices.IndexFunc(l.waiting, func(w *waiting) bool {
			of, needs := l.slots[w.kind]
			return !needs || len(of) > 0
		})
		if next < 0 || l.waiting[next].places > l.places {
			return
		}
		w := l.waiting[next]
		l.waiting = slices.Delete(l.waiting, next, next+1)
		l.places -= w.places
		var s *slot
		if of := l.slots[w.kind]; len(of) > 0 {
			s, l.slots[w.kind] = of[0], of[1:]
		}
		w.got <- s
	}
}

// Whoever comes first, tests are served by kind and by name; one whose kind has nothing left keeps no other waiting, and one that needs more places is
// not passed by.
func TestALineHasItsOrder(t *testing.T) {
	backends(t, local) // it needs no cloud
	for _, c := range []struct {
		places int
		tests  []waiting
		want   []string
	}{
		{1, []waiting{{name: "d", kind: ofItsOwn}, {name: "b", kind: ofItsOwn}, {name: "c", kind: onTwoHosts}, {name: "a", kind: onTwoHosts}, {name: "z", kind: alone}}, []string{"z", "a", "c", "b", "d"}},
		{2, []waiting{{name: "d", kind: onTwoHosts}, {name: "c", kind: onTwoHosts}, {name: "b", kind: ofItsOwn}, {name: "a", kind: ofItsOwn}}, []string{"a", "c", "d", "b"}},
		{1, []waiting{{name: "a", kind: ofItsOwn}, {name: "TestServersOfEncryptedImages", kind: ofItsOwn}, {name: "B", kind: onTwoHosts}}, []string{"B", "TestServersOfEncryptedImages", "a"}},
		{2, []waiting{{name: "a", kind: ofItsOwn}, {name: "b", kind: ofItsOwn, places: 2}, {name: "c", kind: ofItsOwn}}, []string{"a", "b", "c"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := line{places: c.places, slots: map[kind][]*slot{onTwoHosts: {{name: "the pair"}}}}
			began, served := time.Now(), map[string]time.Duration{}
			var mu sync.Mutex
			var all sync.WaitGroup
			for _, w := range c.tests {
				all.Go(func() {
					places := max(1, w.places)
					s := l.take(w.name, w.kind, places)
					mu.Lock()
					served[w.name] = time.Since(began)
					mu.Unlock()
					require.Equal(t, w.kind == onTwoHosts, s != nil)
					<-time.After(time.Duration(w.kind+1) * time.Second) // a pair is back before a plain one
					l.give(w.kind, places, s)
				})
			}
			all.Wait()
			order := slices.SortedFunc(maps.Keys(served), func(a, b string) int { return cmp.Or(cmp.Compare(served[a], served[b]), cmp.Compare(a, b)) })
			require.Equal(t, c.want, order)
			require.Equal(t, c.places, l.places)
			require.Len(t, l.slots[onTwoHosts], 1)
		})
	}
}
