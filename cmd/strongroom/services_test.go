package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/activities/image/glance"
	"strongroom/activities/key/barbican"
	"strongroom/activities/object"
	"strongroom/activities/object/swift"
	"strongroom/activities/port/neutron"
	"strongroom/activities/share/manila"
	"strongroom/activities/trust"
	trustkeystone "strongroom/activities/trust/keystone"
	"strongroom/compute"
	openstack "strongroom/deploy/cloud"
	"strongroom/deploy/cloud/cloudtest"
)

func testServices(t *testing.T, change func(cfg *Config)) *services {
	t.Helper()
	cfg := defaults()
	dir := t.TempDir()
	cfg.Keys.Path, cfg.Keys.Master = filepath.Join(dir, "keys"), filepath.Join(dir, "master.key")
	cfg.Images.Path, cfg.Objects.Path, cfg.Trusts.Path = filepath.Join(dir, "images"), filepath.Join(dir, "objects"), filepath.Join(dir, "trusts")
	cfg.Shares.Path = filepath.Join(dir, "shares")
	change(cfg)
	return &services{Config: cfg, run: &run{Context: context.Background(), log: slog.New(slog.DiscardHandler)}, authorities: presented{}}
}

// openAll opens each service and gives the errors by its key.
func (s *services) openAll() map[string]error {
	errs := map[string]error{}
	_, errs["keys"] = s.keys()
	_, errs["images"] = s.images()
	_, errs["objects"] = s.objects()
	_, errs["trusts"] = s.trusts()
	_, errs["shares"] = s.shares()
	_, errs["networks"] = s.networks()
	return errs
}

func choose(backends map[string]string) func(*Config) {
	return func(cfg *Config) {
		cfg.Keys.Backend, cfg.Images.Backend = backends["keys"], backends["images"]
		cfg.Objects.Backend, cfg.Trusts.Backend = backends["objects"], backends["trusts"]
		cfg.Shares.Backend, cfg.Networks.Backend = backends["shares"], backends["networks"]
	}
}

// Each service is where its own section of the configuration says.
func TestServicesAreWhereTheirSectionsSay(t *testing.T) {
	t.Parallel()
	backends := map[string]string{"keys": "barbican", "images": "glance", "objects": "swift", "trusts": "local", "shares": "manila", "networks": "neutron"}
	sections := map[string]func(cfg *Config) (endpoint *string, interfaces *[]string){
		"keys":     func(cfg *Config) (*string, *[]string) { return &cfg.Keys.Endpoint, &cfg.Keys.Interfaces },
		"images":   func(cfg *Config) (*string, *[]string) { return &cfg.Images.Endpoint, &cfg.Images.Interfaces },
		"objects":  func(cfg *Config) (*string, *[]string) { return &cfg.Objects.Endpoint, &cfg.Objects.Interfaces },
		"shares":   func(cfg *Config) (*string, *[]string) { return &cfg.Shares.Endpoint, &cfg.Shares.Interfaces },
		"networks": func(cfg *Config) (*string, *[]string) { return &cfg.Networks.Endpoint, &cfg.Networks.Interfaces },
	}
	const noAddress, noInterface = "the endpoint is no http or https address of a service", `"there is none" is no interface of endpoints`
	for name, section := range sections {
		for _, wrong := range []string{noAddress, noInterface} {
			s := testServices(t, func(cfg *Config) {
				choose(backends)(cfg)
				endpoint, interfaces := section(cfg)
				if wrong == noAddress {
					*endpoint = "ftp://example"
				} else {
					*interfaces = []string{"there is none"}
				}
			})
			for other, err := range s.openAll() {
				if other == name {
					require.ErrorContains(t, err, wrong, name)
				} else if err != nil {
					require.NotContains(t, err.Error(), wrong, "%s is where %s is", other, name)
				}
			}
		}
	}
}

func TestLocalServicesNeedNoCloud(t *testing.T) {
	t.Parallel()
	s := testServices(t, func(cfg *Config) { cfg.Identity.AuthURL = "http://127.0.0.1:1" })
	for key, err := range s.openAll() {
		require.NoError(t, err, key)
	}
	require.Nil(t, s.cloud)
}

func TestUnknownBackendsAreNamedWithTheChoices(t *testing.T) {
	t.Parallel()
	s := testServices(t, choose(map[string]string{"keys": "vault", "images": "", "objects": "s3", "trusts": "ldap", "shares": "nfs", "networks": "nova"}))
	errs := s.openAll()
	require.EqualError(t, errs["keys"], `keys.backend "vault" is unknown: use local or barbican`)
	require.EqualError(t, errs["images"], `images.backend "" is unknown: use local or glance`)
	require.EqualError(t, errs["objects"], `objects.backend "s3" is unknown: use local or swift`)
	require.EqualError(t, errs["trusts"], `trusts.backend "ldap" is unknown: use local or keystone`)
	require.EqualError(t, errs["networks"], `networks.backend "nova" is unknown: use neutron, local or none`)
	require.EqualError(t, errs["shares"], `shares.backend "nfs" is unknown: use local, manila or none`)
}

func TestServicesOfTheCloudShareOneLogin(t *testing.T) {
	t.Parallel()
	login, _, _, err := clouds.Parse(clouds.WithLocations(cloudtest.Open(t)), clouds.WithCloudName(openstack.Service))
	require.NoError(t, err)
	in := choose(map[string]string{"keys": "barbican", "images": "glance", "objects": "swift", "trusts": "keystone", "shares": "manila", "networks": "neutron"})
	password := filepath.Join(t.TempDir(), "password")
	s := testServices(t, func(cfg *Config) {
		in(cfg)
		cfg.Identity.AuthURL, cfg.Identity.Username, cfg.Identity.Project = login.IdentityEndpoint, login.Username, "service"
		cfg.Identity.PasswordFile = password
	})
	for key, err := range s.openAll() {
		require.ErrorContains(t, err, "identity.password_file", key)
	}
	require.NoError(t, os.WriteFile(password, []byte(login.Password+"\n"), 0o600))

	keys, err := s.keys()
	require.NoError(t, err)
	require.IsType(t, &barbican.Manager{}, keys)
	require.NoError(t, keys.Check(t.Context(), compute.DeploymentCredential()))
	first := s.cloud
	images, err := s.images()
	require.NoError(t, err)
	require.IsType(t, &glance.Library{}, images)
	_, err = images.List(t.Context(), compute.Credential{}, image.ListInput{})
	require.NoError(t, err)
	objects, err := s.objects()
	require.NoError(t, err)
	require.IsType(t, &swift.Blobs{}, objects.Blobs)
	_, err = objects.List(t.Context(), compute.DeploymentCredential(), object.ListInput{})
	require.NoError(t, err)
	trusts, err := s.trusts()
	require.NoError(t, err)
	require.IsType(t, &trustkeystone.Keeper{}, trusts)
	_, err = trusts.List(t.Context(), trust.ListInput{})
	require.NoError(t, err)
	shares, err := s.shares()
	require.NoError(t, err)
	require.IsType(t, &manila.Service{}, shares)
	networks, err := s.networks()
	require.NoError(t, err)
	require.IsType(t, &neutron.Service{}, networks)
	require.Same(t, first, s.cloud)
}
