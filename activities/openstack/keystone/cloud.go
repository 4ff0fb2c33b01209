// Package keystone gives clients of a cloud's services: it logs in to the identity
// service as strongroom's own user, in the projects where it has a role and by the
// trusts of others, and sends users' tokens beside its own, so that they may expire
// while an operation is at work.
package keystone

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"
	lru "github.com/hashicorp/golang-lru/v2"

	"strongroom/activities/openstack"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// Config says where the cloud is and who strongroom is there.
type Config struct {
	AuthURL     string             // of the identity service, version 3
	Username    string             // strongroom's own user, which wants the role "service"
	Password    *secret.Passphrase // stays the Cloud's
	Project     string             // its own project, by name
	Domain      string             // of the user and the project, by name
	Region      string             // of the endpoints; "": the first of a service
	Interface   string             // of the endpoints: public, internal or admin; "": public
	Connection  Connection
	Authorities openstack.Authorities
	Logger      *slog.Logger // nil: nothing is logged
}

// Cloud is an OpenStack cloud, seen through its catalog.
type Cloud struct {
	cfg       Config
	identity  string // base address, with a slash at its end
	transport http.RoundTripper
	own       *login
	others    *lru.Cache[tokens.Scope, *login]
	catalogs  *lru.Cache[string, catalog] // by project
}

// remembered bounds how many logins, and how many projects' catalogs, are kept.
const remembered = 1024

// Open logs in as strongroom's own user. Invalid: the configuration makes no sense;
// Forbidden: the identity service refuses the user; Unavailable: it does not answer.
func Open(ctx context.Context, cfg Config) (*Cloud, error) {
	if cfg.Interface == "" {
		cfg.Interface = string(gophercloud.AvailabilityPublic)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if !slices.Contains(interfaces, cfg.Interface) {
		return nil, compute.Errorf(compute.Invalid, "%q is no interface of endpoints: there are public, internal and admin", cfg.Interface)
	}
	base, err := utils.BaseEndpoint(cfg.AuthURL)
	if err != nil || cfg.AuthURL == "" {
		return nil, compute.Errorf(compute.Invalid, "%q is no address of an identity service", cfg.AuthURL)
	}
	transport, err := cfg.Connection.Transport()
	if err != nil {
		return nil, err
	}
	if cfg.Connection.Insecure {
		cfg.Logger.WarnContext(ctx, "identity.insecure: services of the cloud may be anybody, who then gets strongroom's password and tokens")
	}
	c := &Cloud{cfg: cfg, identity: gophercloud.NormalizeURL(base), transport: transport}
	if c.others, err = lru.New[tokens.Scope, *login](remembered); err != nil {
		return nil, err
	}
	if c.catalogs, err = lru.New[string, catalog](remembered); err != nil {
		return nil, err
	}
	c.own = &login{cloud: c, scope: tokens.Scope{ProjectName: cfg.Project, DomainName: cfg.Domain}}
	s, err := c.own.session(ctx)
	switch {
	case errors.Is(err, errRefused):
		return nil, compute.Errorf(compute.Forbidden, "the identity service at %s refuses the user %s of domain %s in the project %s: check its name, its password and its roles",
			cfg.AuthURL, cfg.Username, cfg.Domain, cfg.Project)
	case err != nil:
		return nil, compute.Errorf(compute.KindOf(err), "the identity service at %s: %w", cfg.AuthURL, err)
	}
	if !slices.ContainsFunc(s.roles, func(r tokens.Role) bool { return r.Name == "service" }) {
		cfg.Logger.WarnContext(ctx, "strongroom's own user lacks the role service: operations fail when their token expires", "user", cfg.Username)
	}
	return c, nil
}

// User is the id of strongroom's own user, in whom others trust.
func (c *Cloud) User() string { return c.own.last.Load().user }

// Clients gives clients of the services of a type of the catalog: key-manager, image,
// object-store, sharev2, network or identity. Those of identity know who they act for: their
// GetAuthResult is a tokens.CreateResult or tokens.GetResult without the token.
func (c *Cloud) Clients(serviceType string) openstack.Clients {
	return c.ClientsAt(serviceType, Endpoint{})
}

// ClientsAt is Clients of a service that is where at says.
func (c *Cloud) ClientsAt(serviceType string, at Endpoint) openstack.Clients {
	return clients{cloud: c, want: wanted{service: serviceType, at: at}}
}

// ByTrust gives a client that acts in the name of who gave strongroom's own user the
// trust. Forbidden: it is not good any more.
func (c *Cloud) ByTrust(ctx context.Context, serviceType, trustID string) (*gophercloud.ServiceClient, error) {
	return c.loggedIn(ctx, wanted{service: serviceType}, c.login(tokens.Scope{TrustID: trustID}), "")
}

// clients are the clients of one service.
type clients struct {
	cloud *Cloud
	want  wanted
}

// Client implements openstack.Clients. Whatever a credential stands for must be for
// the credential's project: a key manager knows a secret's project by the token alone,
// finds nothing in another one, and would call a delete there done.
func (s clients) Client(ctx context.Context, cred compute.Credential) (*gophercloud.ServiceClient, error) {
	c := s.cloud
	switch {
	case cred.IsDeployment(), cred.ProjectID == "" && cred.ID == uuid.Nil:
		return c.loggedIn(ctx, s.want, c.own, "")
	case cred.ProjectID == "":
		return nil, compute.Errorf(compute.Forbidden, "credential %s names no project", cred.ID)
	case cred.IsMember():
		return c.loggedIn(ctx, s.want, c.login(tokens.Scope{ProjectID: cred.ProjectID}), cred.ProjectID)
	}
	authority, err := c.cfg.Authorities.Authority(ctx, cred)
	if err != nil {
		return nil, err
	}
	switch {
	case authority.ProjectID != cred.ProjectID:
		err = compute.Errorf(compute.Forbidden, "credential %s is for another project", cred.ID)
	case authority.TrustID != "":
		authority.Token.Wipe()
		return c.loggedIn(ctx, s.want, c.login(tokens.Scope{TrustID: authority.TrustID}), cred.ProjectID)
	case authority.Token.Len() == 0:
		err = compute.Errorf(compute.Forbidden, "credential %s stands for nothing", cred.ID)
	default:
		return c.withToken(ctx, s.want, authority)
	}
	authority.Token.Wipe()
	return nil, err
}

// login gives the login of a scope, which all who ask share.
func (c *Cloud) login(scope tokens.Scope) *login {
	if l, ok := c.others.Get(scope); ok {
		return l
	}
	l := &login{cloud: c, scope: scope}
	if earlier, ok, _ := c.others.PeekOrAdd(scope, l); ok {
		return earlier
	}
	return l
}

// loggedIn gives a client of a login, which must be in the project, if one is named.
func (c *Cloud) loggedIn(ctx context.Context, want wanted, l *login, project string) (*gophercloud.ServiceClient, error) {
	s, err := l.session(ctx)
	if err != nil {
		return nil, err
	}
	if project != "" && s.project != project {
		return nil, compute.Errorf(compute.Forbidden, "%s is for another project than %s", l, project)
	}
	acts := &carrier{transport: c.transport, login: l}
	if l != c.own && want.service == sharesType {
		acts.vouches = c.own // as beside a user's token: it shows what locks hide from users (docs/shares.md)
	}
	provider := c.provider(acts)
	if err := provider.SetTokenAndAuthResult(s.result); err != nil {
		return nil, openstack.Error(err, "log in")
	}
	return c.client(provider, want, s.catalog, s.project)
}

// withToken gives a client of a user's token, which becomes the client's.
func (c *Cloud) withToken(ctx context.Context, want wanted, a openstack.Authority) (*gophercloud.ServiceClient, error) {
	carrier := newUserCarrier(c.transport, c.own, a.Token)
	known, ok := c.catalogs.Get(a.ProjectID)
	provider := c.provider(carrier)
	if !ok || known.stale() || want.service == identityType {
		result, err := c.validate(ctx, a.Token)
		if err != nil {
			return nil, err
		}
		if project, err := result.ExtractProject(); err != nil || project == nil || project.ID != a.ProjectID {
			return nil, compute.Errorf(compute.Forbidden, "the token is for another project than %s", a.ProjectID)
		}
		if known, err = catalogOf(result); err != nil {
			return nil, err
		}
		c.catalogs.Add(a.ProjectID, known)
		if err := provider.SetTokenAndAuthResult(result); err != nil {
			return nil, openstack.Error(err, "look at the token")
		}
	}
	return c.client(provider, want, known, a.ProjectID)
}

// provider gives what clients of all services have in common. The carrier sends the
// tokens, to wherever a request goes, so no answer may send it elsewhere.
func (c *Cloud) provider(carrier *carrier) *gophercloud.ProviderClient {
	provider := &gophercloud.ProviderClient{IdentityBase: c.identity, IdentityEndpoint: c.identity + "v3/"}
	provider.HTTPClient = http.Client{
		Transport:     carrier,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	provider.UseTokenLock()
	return provider
}

// client makes a service's client as gophercloud makes it, with the endpoint of the
// project's catalog.
func (c *Cloud) client(provider *gophercloud.ProviderClient, want wanted, known catalog, project string) (*gophercloud.ServiceClient, error) {
	where := gophercloud.EndpointOpts{Region: c.cfg.Region, Availability: gophercloud.Availability(c.cfg.Interface)}
	provider.EndpointLocator = want.locator(known, project)
	switch want.service {
	case identityType: // where the login is made, for all
		return gopher.NewIdentityV3(provider, gophercloud.EndpointOpts{})
	case "key-manager":
		return gopher.NewKeyManagerV1(provider, where)
	case "image":
		return gopher.NewImageV2(provider, where)
	case "object-store":
		return gopher.NewObjectStorageV1(provider, where)
	case "sharev2":
		return gopher.NewSharedFileSystemV2(provider, where)
	case "network":
		return gopher.NewNetworkV2(provider, where)
	}
	return nil, compute.Errorf(compute.Invalid, "there are no clients of the service type %q", want.service)
}
