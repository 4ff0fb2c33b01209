package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

// pathHealth is where balancers ask, without a token.
const pathHealth = "/healthcheck"

const (
	healthPatience = 2 * time.Second // for the database, and for Temporal
	healthAge      = time.Second     // how old an answer may be
)

// health is what the last look saw. Whoever asks, there is one look at a time and one a second.
type health struct {
	mu   sync.Mutex
	at   time.Time
	seen map[string]string
	well bool
}

// healthcheck says whether this process can serve: 200, or 503 while the database or Temporal does not answer (K2).
func (a *API) healthcheck(c echo.Context) error {
	well, seen := a.askHealth()
	if !well {
		return respond(c, http.StatusServiceUnavailable, seen)
	}
	return respond(c, http.StatusOK, seen)
}

func (a *API) askHealth() (well bool, seen map[string]string) {
	h := &a.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.at) < healthAge {
		return h.well, h.seen
	}
	// It is not this request's alone.
	ctx, cancel := context.WithTimeout(context.Background(), healthPatience)
	defer cancel()
	h.seen, h.well = map[string]string{"database": "ok", "temporal": "ok"}, true
	for name, ask := range map[string]func(context.Context) error{"database": a.config.Pool.Ping, "temporal": a.config.Operations.Health} {
		if err := ask(ctx); err != nil {
			a.config.Logger.Warn("not healthy", "service", name, "error", err)
			h.seen[name], h.well = "does not answer", false
		}
	}
	h.at = time.Now()
	return h.well, h.seen
}
