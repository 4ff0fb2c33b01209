package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"strongroom/api"
	"strongroom/api/origin"
	"strongroom/durable"
	"strongroom/worker/agent"
)

type apiCommand struct{}

// Help is shown by --help.
func (apiCommand) Help() string {
	return `Serves the OpenStack compute API and, beside it, volume types (/v3). It keeps no state: run as many as you like
behind a load balancer. Temporal may be away when a request comes: the operation
is committed and starts when Temporal is back.`
}

func (apiCommand) Run(r *run) error {
	b, err := r.openBackends(durable.DialLazily)
	if err != nil {
		return err
	}
	defer b.close()
	identity, err := identityClient(r, b.Identity)
	if err != nil {
		return err
	}
	s := &services{Config: b.Config, run: r, authorities: presented{}}
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
	box, err := b.seal()
	if err != nil {
		return err
	}
	agentKey, err := secretFile(b.AgentKey)
	if err != nil {
		return err
	}
	behind, err := origin.New(b.API.PublicURL, b.API.TrustedProxies)
	if err != nil {
		return fmt.Errorf("api.public_url, api.trusted_proxies: %w", err)
	}
	handler, err := api.New(api.Config{
		Pool: b.pool, Identity: identity, IdentityURI: b.Identity.AuthURL, PolicyFile: b.API.PolicyFile, VolumeType: b.API.VolumeType, Logger: r.log,
		Images: imageRecords{images}, Keys: keyAccess{keys}, Objects: objects, Seal: box, KeyRoles: b.Credentials.Roles,
		ForceConfigDrive: b.API.ForceConfigDrive, Origin: behind,
		Operations: durable.Starter{Client: b.temporal},
		Consoles:   agent.Client{Key: agentKey, HTTP: http.DefaultClient, Now: time.Now},
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

// identityClient logs in with strongroom's own user; its token is renewed when
// it ends.
func identityClient(ctx context.Context, cfg IdentityConfig) (*gophercloud.ServiceClient, error) {
	password, err := secretFile(cfg.PasswordFile)
	if err != nil {
		return nil, fmt.Errorf("identity.password_file: %w", err)
	}
	provider, err := openstack.AuthenticatedClient(ctx, gophercloud.AuthOptions{
		IdentityEndpoint: cfg.AuthURL, Username: cfg.Username, Password: string(password),
		TenantName: cfg.Project, DomainName: cfg.Domain, AllowReauth: true,
	})
	if err != nil {
		return nil, fmt.Errorf("logging in at %s as %s: %w", cfg.AuthURL, cfg.Username, explain(err))
	}
	return openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{Region: cfg.Region})
}
