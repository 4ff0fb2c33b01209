package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/activities/credential"
	"strongroom/activities/image"
	"strongroom/activities/image/glance"
	imagelocal "strongroom/activities/image/local"
	"strongroom/activities/key"
	"strongroom/activities/key/barbican"
	keylocal "strongroom/activities/key/local"
	"strongroom/activities/object"
	objectlocal "strongroom/activities/object/local"
	"strongroom/activities/object/swift"
	"strongroom/activities/openstack"
	"strongroom/activities/openstack/keystone"
	"strongroom/activities/port"
	portlocal "strongroom/activities/port/local"
	"strongroom/activities/port/neutron"
	"strongroom/activities/project"
	"strongroom/activities/secret"
	"strongroom/activities/share"
	sharelocal "strongroom/activities/share/local"
	"strongroom/activities/share/manila"
	"strongroom/activities/trust"
	trustkeystone "strongroom/activities/trust/keystone"
	trustlocal "strongroom/activities/trust/local"
	"strongroom/api/auth"
	"strongroom/compute"
	"strongroom/schema/seal"
)

// services opens what the configuration names: the cloud's services, or local ones.
type services struct {
	*Config
	run         *run
	authorities openstack.Authorities
	box         *seal.Box       // nil for the api, which acts with the tokens of requests
	pool        *pgxpool.Pool   // where strongroom's own ports are
	cloud       *keystone.Cloud // nil until the first service of the cloud is opened
}

// clients gives clients of one of the cloud's services.
func (s *services) clients(serviceType string) (openstack.Clients, error) {
	return s.clientsAt(serviceType, keystone.Endpoint{})
}

// clientsAt gives clients of a service that is where at says; strongroom logs in at the first call.
func (s *services) clientsAt(serviceType string, at keystone.Endpoint) (openstack.Clients, error) {
	if err := at.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", serviceType, err)
	}
	if s.cloud == nil {
		password, err := secretFile(s.Identity.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("identity.password_file: %w", err)
		}
		reached, err := s.Identity.connection()
		if err != nil {
			return nil, err
		}
		if s.cloud, err = keystone.Open(s.run, keystone.Config{
			AuthURL: s.Identity.AuthURL, Username: s.Identity.Username, Password: secret.New(password), Project: s.Identity.Project,
			Domain: s.Identity.Domain, Region: s.Identity.Region, Interface: s.Identity.Interface,
			Connection: reached, Authorities: s.authorities, Logger: s.run.log,
		}); err != nil {
			return nil, fmt.Errorf("identity: %w", err)
		}
	}
	return s.cloud.ClientsAt(serviceType, at), nil
}

func unknownBackend(key, value, choices string) error {
	return fmt.Errorf("%s.backend %q is unknown: use %s", key, value, choices)
}

func (s *services) keys() (key.Manager, error) {
	switch s.Keys.Backend {
	case "local":
		return keylocal.Open(s.Keys.Path, s.Keys.Master)
	case "barbican":
		clients, err := s.clientsAt("key-manager", keystone.Endpoint{URL: s.Keys.Endpoint, Region: s.Keys.Region, Interfaces: s.Keys.Interfaces})
		return &barbican.Manager{Clients: clients}, err
	}
	return nil, unknownBackend("keys", s.Keys.Backend, "local or barbican")
}

func (s *services) images() (image.Library, error) {
	switch s.Images.Backend {
	case "local":
		return imagelocal.Open(imagelocal.Config{Dir: s.Images.Path})
	case "glance":
		clients, err := s.clientsAt("image", keystone.Endpoint{URL: s.Images.Endpoint, Region: s.Images.Region, Interfaces: s.Images.Interfaces})
		return &glance.Library{Clients: clients}, err
	}
	return nil, unknownBackend("images", s.Images.Backend, "local or glance")
}

func (s *services) objects() (*object.Segmented, error) {
	switch s.Objects.Backend {
	case "local":
		return objectlocal.Open(s.Objects.Path)
	case "swift":
		clients, err := s.clientsAt("object-store", keystone.Endpoint{URL: s.Objects.Endpoint, Region: s.Objects.Region, Interfaces: s.Objects.Interfaces})
		return &object.Segmented{Blobs: &swift.Blobs{Clients: clients}}, err
	}
	return nil, unknownBackend("objects", s.Objects.Backend, "local or swift")
}

func (s *services) shares() (share.Service, error) {
	switch s.Shares.Backend {
	case "local":
		return sharelocal.Open(s.Shares.Path)
	case "manila":
		clients, err := s.clientsAt("sharev2", keystone.Endpoint{URL: s.Shares.Endpoint, Region: s.Shares.Region, Interfaces: s.Shares.Interfaces})
		return &manila.Service{Clients: clients}, err
	case "none":
		return share.None{}, nil
	}
	return nil, unknownBackend("shares", s.Shares.Backend, "local, manila or none")
}

func (s *services) networks() (port.Service, error) {
	switch s.Networks.Backend {
	case "neutron":
		clients, err := s.clientsAt("network", keystone.Endpoint{URL: s.Networks.Endpoint, Region: s.Networks.Region, Interfaces: s.Networks.Interfaces})
		return &neutron.Service{Clients: clients}, err
	case "local":
		networks, err := s.localNetworks()
		return &portlocal.Service{Pool: s.pool, Configured: networks, Quota: s.Networks.Ports}, err
	case "none":
		return port.None{}, nil
	}
	return nil, unknownBackend("networks", s.Networks.Backend, "neutron, local or none")
}

func (s *services) trusts() (trust.Keeper, error) {
	switch s.Trusts.Backend {
	case "local":
		return trustlocal.Open(s.Trusts.Path)
	case "keystone":
		_, err := s.clients("identity")
		return &trustkeystone.Keeper{Cloud: s.cloud, Roles: s.Trusts.Roles}, err
	}
	return nil, unknownBackend("trusts", s.Trusts.Backend, "local or keystone")
}

// projects gives who knows which projects there are; nil where identity is strongroom's own.
func (s *services) projects() (project.Registry, error) {
	if s.Trusts.Backend != "keystone" {
		return nil, nil //nolint:nilnil // projects of the one-machine mode are never deleted
	}
	_, err := s.clients("identity")
	return s.cloud, err
}

// seal reads the keys that close tokens in the database.
func (cfg *Config) seal() (*seal.Box, error) {
	text, err := secretFile(cfg.Credentials.Key)
	if err != nil {
		return nil, fmt.Errorf("credentials.key: %w", err)
	}
	box, err := seal.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("credentials.key: %s: %w", cfg.Credentials.Key, err)
	}
	return box, nil
}

// sealed finds the credentials of operations, for workers.
func sealed(cfg *Config, pool *pgxpool.Pool, log *slog.Logger) (*credential.Store, error) {
	box, err := cfg.seal()
	return &credential.Store{Pool: pool, Box: box, Logger: log}, err
}

// presented is the token of the request that is being answered, for the api.
type presented struct{}

// Authority implements openstack.Authorities.
func (presented) Authority(ctx context.Context, cred compute.Credential) (openstack.Authority, error) {
	p, ok := auth.From(ctx)
	if !ok {
		return openstack.Authority{}, compute.Errorf(compute.Forbidden, "credential %s is no request's", cred.ID)
	}
	return openstack.Authority{ProjectID: p.ProjectID, Token: secret.New([]byte(p.Token))}, nil
}
