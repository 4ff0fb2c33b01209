package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/api"
	"strongroom/api/origin"
	"strongroom/durable"
	"strongroom/worker/agent"
	"strongroom/worker/pki"
)

type apiCommand struct{}

// Help is shown by --help.
func (apiCommand) Help() string {
	return `Serves the OpenStack compute API and, beside it, volume types (/volume/v3). It keeps no state: run as many as you like
behind a load balancer. Temporal may be away when a request comes: the operation
is committed and starts when Temporal is back.`
}

func (apiCommand) Run(r *run) error {
	b, err := r.openBackends(pki.API, durable.DialLazily, apiConnections)
	if err != nil {
		return err
	}
	defer b.close()
	identity, err := identityClient(r, b.Identity)
	if err != nil {
		return err
	}
	quotas, err := openQuotas(r, b.Config)
	if err != nil {
		return err
	}
	s := &services{Config: b.Config, run: r, authorities: presented{}, pool: b.pool}
	images, err := s.images()
	if err != nil {
		return err
	}
	keys, err := s.keys()
	if err != nil {
		return err
	}
	objects, err := s.objects()
	if err != nil {
		return err
	}
	shares, err := s.shares()
	if err != nil {
		return err
	}
	networks, err := s.networks()
	if err != nil {
		return err
	}
	box, err := b.seal()
	if err != nil {
		return err
	}
	authority, err := b.authority()
	if err != nil {
		return err
	}
	own, err := authority.Process(pki.API)
	if err != nil {
		return err
	}
	go authority.Renew(r, own, pki.API)
	behind, err := origin.New(b.API.PublicURL, b.API.TrustedProxies, origin.Header(b.API.ProxyHeader))
	if err != nil {
		return fmt.Errorf("api.public_url, api.trusted_proxies, api.proxy_header: %w", err)
	}
	cinder, err := cinderEndpoint(b.API.CinderEndpoint)
	if err != nil {
		return fmt.Errorf("api.cinder_endpoint: %w", err)
	}
	reached, err := b.Identity.connection()
	if err != nil {
		return err
	}
	secured, err := reached.TLS()
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	handler, err := api.New(api.Config{
		Pool: b.pool, Identity: identity, IdentityURI: b.Identity.AuthURL, PolicyFile: b.API.PolicyFile, VolumeType: b.API.VolumeType, Cinder: cinder, CinderTLS: secured, Logger: r.log,
		Images: imageRecords{images}, Keys: keyAccess{keys}, Objects: objectAccess{objects}, Shares: shareAccess(shares), Networks: networkAccess(networks), Seal: box, KeyRoles: b.Credentials.Roles, OtherRoles: b.Credentials.OtherRoles,
		ForceConfigDrive: b.API.ForceConfigDrive, MaxImageDiskGB: b.API.MaxImageDiskGB, ShelvedOffloadTime: b.API.ShelvedOffloadTime,
		ResizeToSameHost: b.API.AllowResizeToSameHost, ResizeWindow: b.API.ResizeConfirmWindow, Quotas: quotas, Origin: behind,
		Operations: durable.Starter{Client: b.temporal, Namespace: b.Temporal.Namespace},
		Hosts:      agent.Client{Identity: own},
		Consoles:   api.Consoles{URL: b.ConsoleProxy.PublicURL, TTL: b.ConsoleProxy.TokenTTL},
	})
	if err != nil {
		return err
	}
	err = serve(r, "api", b.API.Listen, handler)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r), stopPatience)
	defer cancel()
	handler.Wait(ctx)
	return err
}

func cinderEndpoint(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	return url.Parse(text)
}

// apiConnections sizes the pool of strongroom api.
func apiConnections(cfg *Config, pool *pgxpool.Config) {
	limitConnections(cfg, pool, cfg.API.Connections)
}

// otherConnections sizes the pools of the other services that anybody's requests reach: gateways, and the
// metadata service, whose requests are short.
func otherConnections(cfg *Config, pool *pgxpool.Config) { limitConnections(cfg, pool, 10) }

// limitConnections sizes a pool. The default of pgx, one for each CPU, is soon used up by
// a few slow requests (M2). What database.url says of either goes before.
func limitConnections(cfg *Config, pool *pgxpool.Config, most int) {
	if !strings.Contains(cfg.Database.URL, "pool_max_conns") {
		pool.MaxConns = int32(max(1, most))
	}
	if _, set := pool.ConnConfig.RuntimeParams["statement_timeout"]; !set {
		pool.ConnConfig.RuntimeParams["statement_timeout"] = "30s" // no statement of a request may take longer
	}
}

// identityClient logs in with strongroom's own user in its project; its token is renewed
// when it ends.
func identityClient(ctx context.Context, cfg IdentityConfig) (*gophercloud.ServiceClient, error) {
	return identityClientOf(ctx, cfg, &gophercloud.AuthScope{ProjectName: cfg.Project, DomainName: cfg.Domain})
}

func identityClientOf(ctx context.Context, cfg IdentityConfig, scope *gophercloud.AuthScope) (*gophercloud.ServiceClient, error) {
	password, err := secretFile(cfg.PasswordFile)
	if err != nil {
		return nil, fmt.Errorf("identity.password_file: %w", err)
	}
	reached, err := cfg.connection()
	if err != nil {
		return nil, err
	}
	transport, err := reached.Transport()
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	provider, err := config.NewProviderClient(ctx, gophercloud.AuthOptions{
		IdentityEndpoint: cfg.AuthURL, Username: cfg.Username, Password: string(password),
		DomainName: cfg.Domain, Scope: scope, AllowReauth: true,
	}, config.WithHTTPClient(http.Client{Transport: transport}))
	if err != nil {
		return nil, fmt.Errorf("logging in at %s as %s: %w", cfg.AuthURL, cfg.Username, explain(err))
	}
	return openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{Region: cfg.Region})
}
