package cloud

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/gophercloud/gophercloud/v2/openstack/objectstorage/v1/accounts"
)

// Region is the one region.
const Region = "RegionOne"

// Service is the user that strongroom itself logs in as, in the project service.
const Service = "strongroom"

// user is a user of the domain default and its roles by project. The first
// project is the one that its entry in clouds.yaml names.
type user struct {
	Name   string  `json:"name"`
	Grants []grant `json:"grants"`
}

type grant struct {
	Project string   `json:"project"`
	Roles   []string `json:"roles"`
}

var (
	projects = []string{"admin", "demo", "alt", "service"}
	// roles are made beside Keystone's own: admin, member, reader. Swift gives ResellerAdmin
	// every project's account: it sets quotas and deletes accounts. load-balancer_observer
	// is one that no service here knows.
	roles = []string{"creator", "observer", "audit", "service", "key-manager:service-admin", "ResellerAdmin", "load-balancer_observer"}
	users = []user{
		{"admin", []grant{{"admin", []string{"admin"}}, {"demo", []string{"admin"}}, {"alt", []string{"admin"}}}}, // and of the system
		{"demo", []grant{{"demo", []string{"member", "creator"}}}},
		{"demo2", []grant{{"demo", []string{"member", "creator"}}}},
		{"alt", []grant{{"alt", []string{"member", "creator"}}}},
		{"both", []grant{{"demo", []string{"member", "creator"}}, {"alt", []string{"member", "creator"}}}},
		{"reader", []grant{{"demo", []string{"reader"}}}},
		{"member", []grant{{"demo", []string{"member"}}}},
		{"observer", []grant{{"demo", []string{"observer"}}}},
		{Service, []grant{{"service", []string{"service", "member", "creator"}}}},
		{"barbican", []grant{{"service", []string{"service"}}}},
		{"glance", []grant{{"service", []string{"service"}}}},
		{"manila", []grant{{"service", []string{"service"}}}},
		{"swift", []grant{{"service", []string{"service"}}}},
		{Cinder, []grant{{"service", []string{"service"}}}},
		{Neutron, []grant{{"service", []string{"service"}}}},
	}
	// systemReaders may read the limits of all projects.
	systemReaders = []string{Service}
)

// endpoint is a service in the catalog, the same URL for each interface.
type endpoint struct {
	Type string `json:"type"`
	Name string `json:"name"`
	URL  string `json:"url"`
}

func (c *Cloud) catalog() []endpoint {
	own := c.cfg.Strongroom
	list := []endpoint{{"compute", "strongroom", own + "/v2.1"}, {"volumev3", "strongroom-volume", own + "/volume/v3/$(project_id)s"}}
	for service, e := range map[string]endpoint{
		"barbican": {"key-manager", "barbican", c.url("barbican")},
		"glance":   {"image", "glance", c.url("glance")},
		"swift":    {"object-store", "swift", c.url("swift") + "/v1/AUTH_$(project_id)s"},
		"manila":   {"sharev2", "manilav2", c.url("manila") + "/v2"},
		Cinder:     {Cinder, Cinder, c.url(Cinder) + "/v3/$(project_id)s"}, // of a type of its own: clients find strongroom's
		Neutron:    {"network", Neutron, c.url(Neutron)},
	} {
		if c.runs(service) {
			list = append(list, e)
		}
	}
	return list
}

// cloudsYAML is what the standard clients read: an entry for each user, named as
// the user, for its first project, and one named user-project for each other one.
func (c *Cloud) cloudsYAML() []byte {
	var b bytes.Buffer
	b.WriteString("clouds:\n")
	for _, u := range users {
		for i, g := range u.Grants {
			entry := u.Name
			if i > 0 {
				entry += "-" + g.Project
			}
			// Networks may be left out, or be "none", from compute 2.37 on.
			fmt.Fprintf(&b, `  %[1]s:
    auth:
      auth_url: %[2]s
      username: %[3]s
      password: %[4]q
      project_name: %[5]s
      user_domain_id: default
      project_domain_id: default
    region_name: %[6]s
    identity_api_version: 3
    compute_api_version: "2.90"
`, entry, c.AuthURL(), u.Name, c.settings.Passwords[u.Name], g.Project, Region)
		}
	}
	return b.Bytes()
}

// makeAccounts makes the projects' Swift accounts. Swift makes one at its first
// use; several first uses at once can meet a cached 404.
func (c *Cloud) makeAccounts(ctx context.Context) error {
	if !c.runs("swift") {
		return nil
	}
	for _, name := range []string{"demo", "alt", Service} {
		client, err := c.login(ctx, name)
		if err != nil {
			return fmt.Errorf("log in as %s: %w", name, err)
		}
		store, err := openstack.NewObjectStorageV1(client, gophercloud.EndpointOpts{Region: Region})
		if err != nil {
			return err
		}
		if err := accounts.Update(ctx, store, accounts.UpdateOpts{}).Err; err != nil {
			return fmt.Errorf("make the object store's account of %s: %w", name, err)
		}
	}
	return nil
}

// loadPolicy has Barbican read its policy: it does so at the first request, and one that comes meanwhile is a 500.
func (c *Cloud) loadPolicy(ctx context.Context) error {
	if !c.runs("barbican") {
		return nil
	}
	client, err := c.login(ctx, Service)
	if err != nil {
		return fmt.Errorf("log in as %s: %w", Service, err)
	}
	keys, err := openstack.NewKeyManagerV1(client, gophercloud.EndpointOpts{Region: Region})
	if err != nil {
		return err
	}
	if _, err := secrets.List(keys, secrets.ListOpts{Limit: 1}).AllPages(ctx); err != nil {
		return fmt.Errorf("the key manager's policy: %w", err)
	}
	return nil
}

// login logs a user in to its first project.
func (c *Cloud) login(ctx context.Context, name string) (*gophercloud.ProviderClient, error) {
	for _, u := range users {
		if u.Name != name {
			continue
		}
		client, err := openstack.NewClient(c.AuthURL())
		if err != nil {
			return nil, err
		}
		client.HTTPClient = http.Client{Timeout: clientTimeout}
		return client, openstack.Authenticate(ctx, client, gophercloud.AuthOptions{
			IdentityEndpoint: c.AuthURL(), Username: name, Password: c.settings.Passwords[name], DomainID: "default",
			Scope: &gophercloud.AuthScope{ProjectName: u.Grants[0].Project, DomainID: "default"},
		})
	}
	return nil, fmt.Errorf("there is no user %s", name)
}
