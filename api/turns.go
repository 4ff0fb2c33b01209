package api

import (
	"context"
	"sync"
	"time"

	"strongroom/compute"
)

// turns let requests of one project through one after another. The lock in the database
// keeps the count right; this one keeps those who wait for it from holding connections,
// all of which one project could take otherwise.
type turns struct {
	mu sync.Mutex
	of map[string]*turn
}

type turn struct {
	free  chan struct{} // holds one while nobody has it
	users int
}

// take waits for a project's turn.
func (t *turns) take(ctx context.Context, project string) (leave func(), err error) {
	t.mu.Lock()
	mine, ok := t.of[project]
	if !ok {
		if t.of == nil {
			t.of = map[string]*turn{}
		}
		mine = &turn{free: make(chan struct{}, 1)}
		mine.free <- struct{}{}
		t.of[project] = mine
	}
	mine.users++
	t.mu.Unlock()
	forget := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(t.of, project)
		}
	}
	patience := time.NewTimer(listLimit)
	defer patience.Stop()
	select {
	case <-mine.free:
		return func() { mine.free <- struct{}{}; forget() }, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-patience.C:
		err = compute.Errorf(compute.Unavailable, "Too many requests of this project wait. Try again.")
	}
	forget()
	return nil, err
}
