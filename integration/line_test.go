package integration_test

import (
	"cmp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A line lends things to tests that wait for them: first to those that are ahead, and to these and to the others in the order of names,
// so that the tests of each run come in the same order.
type line[T any] struct {
	mu      sync.Mutex
	things  []T
	waiting []*waiting[T]
	open    bool
}

type waiting[T any] struct {
	name  string
	ahead bool
	got   chan T
}

// gathering is how long the first in a line waits for all the others. The framework lets them go together.
const gathering = 300 * time.Millisecond

// take waits for a thing.
func (l *line[T]) take(name string, ahead bool) T {
	w := &waiting[T]{name: name, ahead: ahead, got: make(chan T, 1)}
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

// give brings a thing back, or a new one.
func (l *line[T]) give(thing T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.things = append(l.things, thing)
	l.lend()
}

// lend needs the lock.
func (l *line[T]) lend() {
	for l.open && len(l.things) > 0 && len(l.waiting) > 0 {
		slices.SortFunc(l.waiting, func(a, b *waiting[T]) int {
			if a.ahead != b.ahead {
				if a.ahead {
					return -1
				}
				return 1
			}
			return cmp.Compare(a.name, b.name)
		})
		l.waiting[0].got <- l.things[0]
		l.things, l.waiting = l.things[1:], l.waiting[1:]
	}
}

func TestALineHasItsOrder(t *testing.T) {
	backends(t, local) // it needs no cloud
	t.Parallel()
	var l line[int]
	var order []string
	var all sync.WaitGroup
	for _, name := range []string{"d", "b", "c", "a"} {
		all.Go(func() {
			thing := l.take(name, name > "b")
			order = append(order, name) // one at a time, for there is one thing
			l.give(thing)
		})
	}
	l.give(7)
	all.Wait()
	require.Equal(t, []string{"c", "d", "a", "b"}, order)
}
