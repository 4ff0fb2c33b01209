package disk

import (
	"sync"

	"strongroom/compute"
)

// mostTurns is how many downloads and checks of images one project may have under way on a host: fewer
// than the host has slots for long work (worker.Host), so that others' go on (H6).
const mostTurns = 2

// turns counts what projects have under way.
type turns struct {
	mu sync.Mutex
	of map[string]int
}

// take begins one of a project. Unavailable, for some seconds: it has as many as it may.
func (t *turns) take(project string) (done func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[project] == mostTurns {
		return nil, busy{compute.Errorf(compute.Unavailable, "the project has %d images on their way to this host already", mostTurns)}
	}
	if t.of == nil {
		t.of = map[string]int{}
	}
	t.of[project]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.of[project]--; t.of[project] == 0 {
			delete(t.of, project)
		}
	}, nil
}
