package keystone

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"golang.org/x/sync/singleflight"

	"strongroom/activities/openstack"
	"strongroom/activities/secret"
	"strongroom/compute"
)

const (
	// loginTimeout bounds a login, which is short of data.
	loginTimeout = 30 * time.Second
	// longest is how long a session in somebody else's project is used: a role or a
	// trust that was taken away shows by then where services do not ask each time.
	longest = 5 * time.Minute
)

// login is strongroom's own user in a scope, and the session that it has there.
// It is safe for use by several goroutines.
type login struct {
	cloud  *Cloud
	scope  tokens.Scope
	last   atomic.Pointer[session] // nil before the first one
	flight singleflight.Group
}

// session is what one login gave. It does not change.
type session struct {
	token         *secret.Passphrase
	renew, end    time.Time // when it should, and when it must be renewed, by this machine's clock
	user, project string    // ids; by a trust, those of who gave it
	roles         []tokens.Role
	catalog       catalog
	result        tokens.CreateResult // without the token
}

func (l *login) String() string {
	switch {
	case l.scope.TrustID != "":
		return "trust " + l.scope.TrustID
	case l.scope.ProjectID != "":
		return "the login to project " + l.scope.ProjectID
	case l.scope.System:
		return "the login to the system"
	}
	return "the login of strongroom's own user"
}

// errRefused is in the chain when the identity service refuses strongroom's own user.
var errRefused = errors.New("refused: its password or its roles are others now")

// session gives a session that is good for a while. Forbidden: the identity service
// refuses strongroom the project or the trust; Unavailable: it does not answer, or
// refuses strongroom everything, which is nobody's credential's fault.
func (l *login) session(ctx context.Context) (*session, error) {
	s := l.last.Load()
	if s != nil && time.Now().Before(s.renew) {
		return s, nil
	}
	next, err := l.renew(ctx, s)
	if compute.Is(err, compute.Unavailable) && s != nil && time.Now().Before(s.end) {
		l.cloud.cfg.Logger.WarnContext(ctx, "a login could not be renewed", "login", l.String(), "error", err)
		return s, nil
	}
	return next, err
}

// renew gives a session later than used, which is nil for the first one. All who ask
// at once share one login, which goes on when one of them leaves.
func (l *login) renew(ctx context.Context, used *session) (*session, error) {
	done := l.flight.DoChan("", func() (any, error) {
		if s := l.last.Load(); s != nil && s != used {
			return s, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loginTimeout)
		defer cancel()
		s, err := l.authenticate(ctx)
		if err != nil {
			return nil, err
		}
		l.last.Store(s)
		return s, nil
	})
	select {
	case <-ctx.Done():
		return nil, compute.Errorf(compute.Unavailable, "wait for %s: %w", l, ctx.Err())
	case result := <-done:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*session), nil
	}
}

// authenticate logs in. That there is no such trust, and no role in the project, is
// answered with 401, 403 or 404: all mean the same here. A wrong password is answered
// with 401 too, so what is refused is believed only if strongroom's own login works.
func (l *login) authenticate(ctx context.Context) (*session, error) {
	ask := tokens.AuthOptions{Username: l.cloud.cfg.Username, DomainName: l.cloud.cfg.Domain, Scope: l.scope}
	err := l.cloud.cfg.Password.Use(func(value []byte) error { // which one at a time may do
		ask.Password = string(value)
		return nil
	})
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "%s: %w", l, err)
	}
	result := tokens.Create(ctx, l.cloud.bare(), &ask)
	err = openstack.Error(result.Err, l.String())
	switch {
	case err == nil:
		return l.sessionOf(result)
	case !compute.Is(err, compute.NotFound) && !compute.Is(err, compute.Forbidden):
		return nil, err
	case l == l.cloud.own:
		return nil, compute.Errorf(compute.Unavailable, "%s: %w", l, errRefused)
	}
	if _, err := l.cloud.own.authenticate(ctx); err != nil {
		return nil, err
	}
	return nil, compute.Errorf(compute.Forbidden, "%s is refused by the identity service", l)
}

func (l *login) sessionOf(result tokens.CreateResult) (*session, error) {
	var said struct {
		IssuedAt  time.Time      `json:"issued_at"`
		ExpiresAt time.Time      `json:"expires_at"`
		User      tokens.User    `json:"user"`
		Project   tokens.Project `json:"project"`
		Roles     []tokens.Role  `json:"roles"`
	}
	if err := result.ExtractInto(&said); err != nil {
		return nil, openstack.Error(err, l.String())
	}
	known, err := catalogOf(result)
	if err != nil {
		return nil, err
	}
	// The identity service's clock may differ from this machine's: only how long the
	// token lives counts. Half of that is left when it is renewed.
	life := said.ExpiresAt.Sub(said.IssuedAt)
	half := life / 2
	if l != l.cloud.own {
		half = min(half, longest)
	}
	now := time.Now()
	s := &session{
		token: secret.New([]byte(result.Header.Get(subjectToken))), renew: now.Add(half), end: now.Add(life),
		user: said.User.ID, project: said.Project.ID, roles: said.Roles, catalog: known, result: result,
	}
	s.result.Header.Del(subjectToken)
	if s.token.Len() == 0 || s.project == "" && !l.scope.System {
		return nil, compute.Errorf(compute.Unavailable, "%s: the identity service gave no token for a project", l)
	}
	// Requests may be under way with it long after it was replaced.
	runtime.AddCleanup(s, (*secret.Passphrase).Wipe, s.token)
	return s, nil
}

// bare is a client of the identity service that sends no token.
func (c *Cloud) bare() *gophercloud.ServiceClient {
	return &gophercloud.ServiceClient{
		ProviderClient: &gophercloud.ProviderClient{HTTPClient: http.Client{Transport: c.transport}},
		Endpoint:       c.identity + "v3/", Type: identityType,
	}
}

// validate asks the identity service what a user's token is, be it expired or not: it
// gives the token's project and its catalog. Forbidden: it is no token any more.
func (c *Cloud) validate(ctx context.Context, token *secret.Passphrase) (tokens.GetResult, error) {
	client := c.bare()
	client.HTTPClient.Transport = &carrier{transport: c.transport, login: c.own}
	var result tokens.GetResult
	err := token.Use(func(value []byte) error {
		response, err := client.Get(ctx, client.ServiceURL("auth", "tokens?allow_expired=1"), &result.Body, &gophercloud.RequestOpts{
			MoreHeaders: map[string]string{subjectToken: string(value)},
		})
		if err != nil {
			return err
		}
		result.Header = response.Header
		result.Header.Del(subjectToken)
		return response.Body.Close()
	})
	if err := openstack.Error(err, "look at the token"); err != nil {
		if compute.Is(err, compute.NotFound) {
			err = compute.Errorf(compute.Forbidden, "the token has ended")
		}
		return result, err
	}
	return result, nil
}
