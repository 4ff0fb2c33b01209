package stack

import (
	"context"

	"strongroom/deploy/dev/postgres"
	"strongroom/deploy/dev/temporal"
)

// postgresService is the stack's own PostgreSQL cluster.
type postgresService struct {
	layout Layout
	server *postgres.Server
}

func (p *postgresService) start(ctx context.Context) error {
	if p.server != nil {
		if err := p.server.Kill(ctx); err != nil { // lets go of the pid file of the one that ended
			return err
		}
	}
	server, err := postgres.Start(ctx, postgres.Config{
		Dir: p.layout.path("pg"), PIDFile: p.layout.PIDFile("postgres"), LogFile: p.layout.LogFile("postgres"),
	})
	if err == nil {
		p.server = server
	}
	return err
}

func (p *postgresService) done() <-chan struct{}          { return p.server.Done() }
func (p *postgresService) stop(ctx context.Context) error { return p.server.Stop(ctx) }
func (p *postgresService) url() string                    { return p.server.URL() }

// temporalService is strongroom-temporal with its UI.
type temporalService struct {
	layout Layout
	binary string
	server *temporal.Server
}

func (s *temporalService) start(ctx context.Context) error {
	if s.server != nil {
		if err := s.server.Kill(ctx); err != nil {
			return err
		}
	}
	server, err := temporal.Start(ctx, temporal.Config{
		Binary: s.binary, Dir: s.layout.path("temporal"), Port: s.layout.temporalPort(), UIPort: s.layout.temporalUIPort(),
		Authority: s.layout.Authority(), Gateway: "https://" + s.layout.gatewayAddr(),
		PIDFile: s.layout.PIDFile("temporal"), LogFile: s.layout.LogFile("temporal"),
	})
	if err == nil {
		s.server = server
	}
	return err
}

func (s *temporalService) done() <-chan struct{}          { return s.server.Done() }
func (s *temporalService) stop(ctx context.Context) error { return s.server.Stop(ctx) }
