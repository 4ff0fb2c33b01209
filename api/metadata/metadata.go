// Package metadata serves the OpenStack metadata API: what a guest may know of
// itself, to a proxy that knows which guest asks.
package metadata

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/netip"
	"path"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"strongroom/compute"
	documents "strongroom/compute/metadata"
)

// Servers reads what a server may know of itself. NotFound: there is none, or
// there is none any more.
type Servers interface {
	Metadata(ctx context.Context, id compute.ServerID) (documents.Server, error)
}

// Config of the service.
type Config struct {
	Servers Servers
	Secret  []byte // shared with the proxy, which signs with it which server asks
	// Owner, where there is no proxy, gives the server that has the address of who asks, and its project. NotFound: none has.
	Owner  func(ctx context.Context, address netip.Addr) (compute.ServerID, string, error)
	Logger *slog.Logger
}

type service struct{ Config }

// New gives the service. It keeps nothing: every request is one query.
func New(cfg Config) http.Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &service{cfg}
	e := echo.New()
	e.HTTPErrorHandler = s.fail
	e.GET("/*", s.get)
	e.HEAD("/*", s.get)
	return e
}

func (s *service) get(c echo.Context) error {
	asked := c.Request().URL.Path
	if path.Clean("/"+asked) == "/" { // the one question that anybody may ask
		return answer(c, documents.Root())
	}
	id, project, err := s.caller(c.Request())
	if err != nil {
		return err
	}
	server, err := s.find(c, id, project)
	if err != nil {
		return err
	}
	found, err := server.Lookup(asked, rand.Reader)
	if err != nil {
		return err
	}
	return answer(c, found)
}

// find gives the server that asks, if it is of the project that the proxy found it in.
func (s *service) find(c echo.Context, id, project string) (documents.Server, error) {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return documents.Server{}, echo.ErrNotFound
	}
	server, err := s.Servers.Metadata(c.Request().Context(), compute.ServerID{UUID: parsed})
	if err == nil && server.ProjectID != project {
		s.Logger.WarnContext(c.Request().Context(), "the proxy takes a server for another project's", "server", parsed, "project", project)
		err = echo.ErrNotFound
	}
	return server, err
}

func answer(c echo.Context, a documents.Answer) error {
	c.Response().Header().Set("Cache-Control", "no-store") // user data may hold secrets
	return c.Blob(http.StatusOK, a.Type+"; charset=UTF-8", a.Body)
}
