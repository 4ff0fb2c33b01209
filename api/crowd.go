package api

import "sync"

// How many requests wait for an end of what a server does: all of them hold connections, and of those an API has 4096 (serve.go).
const (
	crowdOfServer  = 32
	crowdOfProject = 256
	crowdOfAll     = 1024
)

// crowd counts who waits.
type crowd struct {
	mu sync.Mutex
	of map[string]int
}

// enter counts one more that waits for a server of a project, unless there are too many.
func (c *crowd) enter(server, project string) (leave func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	server, project = "server "+server, "project "+project
	if c.of[server] >= crowdOfServer || c.of[project] >= crowdOfProject || c.of[""] >= crowdOfAll {
		return nil, false
	}
	counts := []string{server, project, ""}
	for _, of := range counts {
		c.of[of]++
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, of := range counts {
			if c.of[of]--; c.of[of] == 0 {
				delete(c.of, of)
			}
		}
	}, true
}
