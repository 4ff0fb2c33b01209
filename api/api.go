package api

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"

	"strongroom/api/auth"
	"strongroom/api/origin"
	"strongroom/api/policy"
	"strongroom/api/urlpath"
	"strongroom/api/volume"
	"strongroom/compute"
	"strongroom/durable/outbox"
	"strongroom/schema"
	"strongroom/schema/seal"
)

// Config is what the API needs.
type Config struct {
	Pool        *pgxpool.Pool
	Identity    *gophercloud.ServiceClient // identity v3, with credentials that may validate tokens
	IdentityURI string                     // the identity service as clients reach it; default: Identity's own
	PolicyFile  string                     // YAML or JSON that overrides policy rules; "" for none
	Images      ImageStore                 // where images are
	Keys        KeyManager                 // the key manager
	Objects     ObjectStore                // the object store
	Shares      Shares                     // the shared file systems service; nil: there is none
	Networks    Networks                   // the network service; nil: servers have networks of their hosts
	Quotas      Quotas                     // what projects may hold, unless something else was written for one; nil: all they like
	Seal        *seal.Box                  // closes the tokens that operations act with
	KeyRoles    []string                   // with which of these roles a token may remove keys; default creator
	OtherRoles  []string                   // which others a token that is kept for that may have; default member, reader
	Operations  Operations                 // starts what was committed
	Hosts       Hosts                      // the agents of compute hosts
	Consoles    Consoles                   // where consoles of servers open
	VolumeType  string                     // name of the default volume type
	Cinder      *url.URL                   // the endpoint of a Cinder that has the volume types, and all else of block storage; nil: there is none
	CinderTLS   *tls.Config                // with which it is reached; nil: Go's own

	ForceConfigDrive   bool             // every new server has a config drive
	MaxImageDiskGB     int              // how large a disk may be that takes its image's size; default compute.DefaultMaxImageDiskGB
	ShelvedOffloadTime int              // seconds that a shelved server stays on its host; compute.NeverOffload: until it is offloaded
	ResizeToSameHost   bool             // a resize may leave the server on its host
	ResizeWindow       int              // seconds after which a resize or migration is confirmed by itself; 0: never
	Patience           time.Duration    // how long a request waits, for the end of an attachment that it asks for or that comes before it; default 50 s
	Origin             origin.Origin    // where clients reach it, as links say
	Logger             *slog.Logger     // one line for each request; nil: none
	Now                func() time.Time // the clock; default time.Now
}

// API is the compute API, with the volume types API beside it. It is an
// http.Handler.
type API struct {
	config    Config
	db        *schema.Queries
	validator *auth.Validator
	echo      *echo.Echo
	volume    http.Handler
	outbox    *outbox.Launcher
	searches  chan struct{} // as many as may run at once
	named     *groupNames
	turns     turns
	health    health
	crowd     crowd

	searchTurns turns
	keyTurns    turns
	imageTurns  turns
}

// New makes the API. It fails on a policy file that cannot be used and on two
// resources that claim the same route or rule.
func New(config Config) (*API, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.KeyRoles == nil {
		config.KeyRoles = []string{"creator"}
	}
	if config.OtherRoles == nil {
		config.OtherRoles = []string{"member", "reader"}
	}
	if config.Patience <= 0 {
		config.Patience = interfaceWait
	}
	if config.MaxImageDiskGB <= 0 {
		config.MaxImageDiskGB = compute.DefaultMaxImageDiskGB
	}
	if config.ShelvedOffloadTime < compute.NeverOffload {
		return nil, fmt.Errorf("shelved_offload_time: %d is no time", config.ShelvedOffloadTime)
	}
	if config.ResizeWindow < 0 {
		return nil, fmt.Errorf("resize_confirm_window: %d is no time", config.ResizeWindow)
	}
	if config.Cinder != nil {
		if err := volume.CheckEndpoint(config.Cinder); err != nil {
			return nil, fmt.Errorf("cinder_endpoint (%q): %w", config.Cinder.Redacted(), err)
		}
	}
	if err := config.Consoles.check(); err != nil {
		return nil, fmt.Errorf("console_proxy (public_url %q): %w", config.Consoles.URL, err)
	}
	if config.Consoles.TTL == 0 {
		config.Consoles.TTL = 10 * time.Minute
	}
	if config.Quotas == nil {
		config.Quotas = unlimited{}
	}
	if config.IdentityURI == "" {
		config.IdentityURI = config.Identity.Endpoint
	}
	a := &API{
		config: config, db: schema.New(config.Pool),
		outbox:   &outbox.Launcher{Starter: config.Operations, Logger: config.Logger},
		named:    newGroupNames(),
		searches: make(chan struct{}, expressions(config.Pool.Config().MaxConns)),
	}
	resources := a.resources()

	rules := []policy.Rules{volume.Rules}
	for _, r := range resources {
		rules = append(rules, r.Rules)
	}
	merged, err := policy.Merge(rules...)
	if err != nil {
		return nil, err
	}
	routes, err := gather(resources, merged)
	if err != nil {
		return nil, err
	}
	if merged, err = merged.Override(config.PolicyFile); err != nil {
		return nil, err
	}
	enforcer, err := merged.Enforcer()
	if err != nil {
		return nil, err
	}
	a.validator = auth.New(auth.Config{
		Identity: config.Identity, Enforcer: enforcer, URI: config.IdentityURI, Client: config.Origin.Client(), Now: config.Now,
	})
	if config.Cinder != nil {
		a.volume = volume.NewProxy(volume.ProxyConfig{
			Endpoint: config.Cinder, TLS: config.CinderTLS, Validator: a.validator, Origin: config.Origin, Logger: config.Logger, Now: config.Now,
		})
	} else {
		a.volume = volume.New(volume.Config{
			Pool: config.Pool, Validator: a.validator, DefaultType: config.VolumeType, Origin: config.Origin, Logger: config.Logger, Now: config.Now,
		})
	}
	a.echo = a.build(routes)
	return a, nil
}

// Wait waits until what answered requests began has ended, or the context ends. No
// request may come any more.
func (a *API) Wait(ctx context.Context) { a.outbox.Wait(ctx) }

// ServeHTTP answers a request. HEAD is answered as GET, and net/http leaves the body out (K2).
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		get := *r
		get.Method = http.MethodGet
		r = &get
	}
	if volume.Owns(urlpath.Written(r)) {
		a.volume.ServeHTTP(w, r)
		return
	}
	a.echo.ServeHTTP(w, r)
}

// build lays the routes out: each below every endpoint, with and without a
// project in the path.
func (a *API) build(routes []*endpoint) *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = a.refuse
	e.IPExtractor = a.config.Origin.Client()
	e.Pre(a.begin)
	e.Use(a.authenticate)
	for _, path := range []string{"/", "/v2", "/v2.1"} {
		e.GET(path, a.discover)
	}
	e.GET(pathHealth, a.healthcheck)
	for _, root := range []string{rootV21, rootV2} {
		for _, route := range routes {
			handler := a.dispatch(route)
			e.Add(route.method, root+route.path, handler)
			e.Add(route.method, root+"/:project_id"+route.path, handler)
		}
	}
	return e
}
