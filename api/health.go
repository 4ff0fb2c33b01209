package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"
)

// pathHealth is where balancers ask, without a token.
const pathHealth = "/healthcheck"

const (
	healthPatience = 2 * time.Second // for the database, and for Temporal
	healthAge      = time.Second     // how old an answer may be
)

// health keeps the result of the last check for a second. One check runs at a time.
type health struct {
	mu   sync.Mutex
	at   time.Time
	seen map[string]string
	err  error
}

// healthcheck says whether this process can serve: 200, or 503 while the database or Temporal does not answer (K2).
func (a *API) healthcheck(c echo.Context) error {
	seen, err := a.health.look(map[string]func(context.Context) error{"database": a.pingDatabase, "temporal": a.config.Operations.Health})
	if err != nil {
		stateOf(c).failure = err
		return respond(c, http.StatusServiceUnavailable, seen)
	}
	return respond(c, http.StatusOK, seen)
}

// look asks all, each with a time of its own, unless somebody just did.
func (h *health) look(all map[string]func(context.Context) error) (map[string]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.at) < healthAge {
		return h.seen, h.err
	}
	// It is not this request's alone, which may end before.
	ctx, cancel := context.WithTimeout(context.Background(), healthPatience)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	h.seen, h.err = map[string]string{}, nil
	for name, ask := range all {
		asked.Go(func() {
			err := ask(ctx)
			mu.Lock()
			defer mu.Unlock()
			h.seen[name] = "ok"
			if err != nil {
				h.seen[name] = "does not answer"
				h.err = errors.Join(h.err, fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	asked.Wait()
	h.at = time.Now()
	return h.seen, h.err
}

// pingDatabase connects anew: a pool whose connections are all in use is no failure of the database.
func (a *API) pingDatabase(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, a.config.Pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return conn.Ping(ctx)
}
