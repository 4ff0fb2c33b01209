package devcloud

import (
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"strongroom/compute"
)

// session is a valid token with what the users' file says of its words today.
type session struct {
	claims

	user    *user
	project *project // nil: unscoped
	roles   []role
}

func (s session) has(names ...string) bool {
	return slices.ContainsFunc(s.roles, func(r role) bool { return slices.Contains(names, r.Name) })
}

// credential is the session as the rooms behind know it.
func (s session) credential() compute.Credential {
	return compute.Credential{ProjectID: s.project.ID, UserID: s.user.ID}
}

// session gives the session of claims, if user, project and roles are still there and no token of the user was ended since.
func (d *directory) session(c claims) (session, bool) {
	s := session{claims: c, user: d.user(c.UserID)}
	if s.user == nil || s.user.Disabled || c.Logins != s.user.Logins {
		return s, false
	}
	if c.ProjectID == "" {
		return s, true
	}
	if s.project = d.project(c.ProjectID); s.project == nil || s.project.Disabled {
		return s, false
	}
	s.roles = s.user.rolesOn(s.project)
	return s, len(s.roles) > 0
}

// open gives a token's session; it may have expired for as long as grace.
func (s *Server) open(token string, grace time.Duration) (session, bool) {
	c, ok := s.tokens.check(token, grace)
	if !ok {
		return session{}, false
	}
	return s.users.now().session(c)
}

const sessionKey = "session"

// authenticated lets requests through that carry a valid token.
func (s *Server) authenticated(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		caller, ok := s.open(c.Request().Header.Get("X-Auth-Token"), 0)
		if !ok {
			return unauthorized()
		}
		c.Set(sessionKey, caller)
		return next(c)
	}
}

// callerOf is who sends a request that passed authenticated.
func callerOf(c echo.Context) session { return c.Get(sessionKey).(session) }
