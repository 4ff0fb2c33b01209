package devcloud

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"strongroom/activities/image"
	"strongroom/activities/port"
)

// Config is what a Server needs. Listen, UsersFile, TokenKeyFile and Images
// must be given.
type Config struct {
	Listen       string            // address and port on loopback; port 0 takes a free one
	UsersFile    string            // see EnsureUsers; administrators change it by the identity API
	TokenKeyFile string            // signs tokens; made if absent. Beside it lies the list of revoked tokens
	Region       string            // "RegionOne" if empty
	TokenLife    time.Duration     // 8 hours if 0
	ExpiredLife  time.Duration     // how long past its end a service may still validate a token; 48 hours if 0
	Images       image.Library     // behind the image API
	Networks     port.Service      // behind the network API, which is there to read; nil: there is none
	Endpoints    map[string]string // other services in the catalog: type to URL, as "compute" to "http://127.0.0.1:8774/v2.1"; $(project_id)s in it is the token's project
	Logger       *slog.Logger      // one line per request, never a token; none if nil
	Now          func() time.Time  // time.Now if nil
}

func (c *Config) fillIn() {
	if c.Region == "" {
		c.Region = "RegionOne"
	}
	if c.TokenLife == 0 {
		c.TokenLife = 8 * time.Hour
	}
	if c.ExpiredLife == 0 {
		c.ExpiredLife = 48 * time.Hour
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}

// Server is an identity, image and network service that listens.
type Server struct {
	cfg      Config
	listener net.Listener
	users    *usersFile
	tokens   *tokens
	http     *http.Server
}

// New reads the files and opens the port; Serve answers on it. An address that
// other machines can reach is refused.
func New(cfg Config) (*Server, error) {
	cfg.fillIn()
	users, err := openUsers(cfg.UsersFile, cfg.Logger)
	if err != nil {
		return nil, err
	}
	tokens, err := openTokens(cfg.TokenKeyFile, cfg.Now)
	if err != nil {
		return nil, err
	}
	listener, err := listenLoopback(cfg.Listen)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, listener: listener, users: users, tokens: tokens}
	s.http = &http.Server{ // images may take as long as they take
		Handler: s.routes(), MaxHeaderBytes: 64 << 10, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
	}
	return s, nil
}

// listenLoopback listens on an address of this machine that no other reaches.
func listenLoopback(address string) (net.Listener, error) {
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("devcloud: listen on %q: %w", address, err)
	}
	if !addr.IP.IsLoopback() {
		return nil, fmt.Errorf("devcloud: listen on %q: it is for this machine only, use an address such as 127.0.0.1", address)
	}
	listener, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("devcloud: %w", err)
	}
	return listener, nil
}

// Serve answers requests until ctx ends, then lets those in flight end, for ten
// seconds at most.
func (s *Server) Serve(ctx context.Context) error {
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		stopped <- errors.Join(s.http.Shutdown(grace), s.http.Close())
	})
	err := s.http.Serve(s.listener)
	if stop() {
		return fmt.Errorf("devcloud: %w", err)
	}
	return <-stopped
}

// Close lets go of the port of a Server that is not served.
func (s *Server) Close() error { return errors.Join(s.http.Close(), s.listener.Close()) }

func (s *Server) base() string { return "http://" + s.listener.Addr().String() }

// AuthURL is the identity service's address, as in clouds.yaml.
func (s *Server) AuthURL() string { return s.base() + "/identity/v3" }

// ImageURL is the image service's address, as in the catalog.
func (s *Server) ImageURL() string { return s.base() + "/image" }

// NetworkURL is the network service's address, as in the catalog.
func (s *Server) NetworkURL() string { return s.base() + "/network" }

func (s *Server) routes() http.Handler {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = answerError
	e.Use(s.logRequest)
	e.GET("/", func(c echo.Context) error {
		return c.JSON(http.StatusOK, map[string]string{"identity": s.AuthURL(), "image": s.ImageURL()})
	})
	(&identity{Server: s}).mount(e.Group("/identity"))
	(&images{Server: s, library: s.cfg.Images}).mount(e.Group("/image"))
	if s.cfg.Networks != nil {
		(&networks{Server: s, service: s.cfg.Networks}).mount(e.Group("/network"))
	}
	return e
}
