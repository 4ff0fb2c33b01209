package volume

import (
	"cmp"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"

	"strongroom/api/auth"
	"strongroom/api/origin"
	"strongroom/api/validation"
	"strongroom/schema"
)

// Root is the endpoint of the API. It is below Service, too: clients of Cinder look for
// versions where the endpoint's path has no version any more, which is the compute API's
// place without it.
const (
	Root    = "/v3"
	Service = "/volume"
)

// Owns reports whether a path is the API's.
func Owns(path string) bool { return isBelow(path, Root) || isBelow(path, Service) }

func isBelow(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// Config is what the API needs.
type Config struct {
	Pool      *pgxpool.Pool
	Validator *auth.Validator // its enforcer knows Rules
	// DefaultType names the type that GET /types/default shows. It cannot be
	// deleted. A type of that name need not exist.
	DefaultType string
	Origin      origin.Origin    // where clients reach it, as links say
	Logger      *slog.Logger     // one line for each request
	Now         func() time.Time // the clock
}

// API is the volume types API. It is an http.Handler.
type API struct {
	config Config
	db     *schema.Queries
	echo   *echo.Echo
}

// New makes the API.
func New(config Config) *API {
	a := &API{config: config, db: schema.New(config.Pool), echo: echo.New()}
	a.echo.HideBanner, a.echo.HidePort = true, true
	a.echo.HTTPErrorHandler = a.refuse
	a.echo.IPExtractor = config.Origin.Client()
	a.echo.Pre(a.begin)
	a.echo.Use(a.authenticate)
	a.echo.GET(Service, a.discoverAll)
	for _, root := range []string{Root, Service + Root} {
		a.echo.GET(root, a.discover)
		a.echo.GET(root+projectRoot, a.discoverProject)
		for _, r := range a.routes() {
			handler := a.dispatch(r)
			a.echo.Add(r.method, root+r.path, handler)
			a.echo.Add(r.method, root+"/:project_id"+r.path, handler)
		}
	}
	return a
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.echo.ServeHTTP(w, r) }

// Route is what the API offers, for whoever describes it.
type Route struct {
	Method, Path string              // below the endpoint and the project: "/types/:id"
	Action       string              // the key of the body that names the action; "" when the path is no action path
	Rules        []string            // each of these policy rules must let the caller pass
	Query        []string            // the parameters that are looked at
	Body         validation.Versions // the schema of the body; undefined: the body is not checked
	Status       int                 // of success
}

// Routes are all routes, and all actions of one.
func (a *API) Routes() []Route {
	var all []Route
	for _, r := range a.routes() {
		one := Route{Method: r.method, Path: r.path, Query: r.query, Body: r.body, Status: cmp.Or(r.status, http.StatusOK)}
		if r.rule != "" {
			one.Rules = []string{r.rule}
		}
		one.Rules = append(one.Rules, r.also...)
		if r.actions == nil {
			all = append(all, one)
		}
		for _, name := range slices.Sorted(maps.Keys(r.actions)) {
			one.Action, one.Rules, one.Body = name, []string{r.actions[name].rule}, r.actions[name].body
			all = append(all, one)
		}
	}
	return all
}

func (a *API) routes() []route {
	var all []route
	for _, resource := range [][]route{a.types(), a.typeManagement(), a.extraSpecs(), a.access(), a.encryption(), a.quotas(), a.changes()} {
		all = append(all, resource...)
	}
	return all
}
