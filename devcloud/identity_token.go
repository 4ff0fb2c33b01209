package devcloud

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// tokenDocument describes a session as Keystone does.
func (i *identity) tokenDocument(c echo.Context, s session) map[string]any {
	domain := map[string]any{"id": domainID, "name": domainName}
	token := map[string]any{
		"methods":    s.Methods,
		"audit_ids":  []string{s.AuditID},
		"issued_at":  keystoneTime(s.IssuedAt),
		"expires_at": keystoneTime(s.ExpiresAt),
		"user":       map[string]any{"id": s.user.ID, "name": s.user.Name, "domain": domain, "password_expires_at": nil},
	}
	if s.project != nil {
		token["project"] = map[string]any{"id": s.project.ID, "name": s.project.Name, "domain": domain}
		token["is_domain"] = false
		token["roles"] = s.roles
		if _, without := c.QueryParams()["nocatalog"]; !without {
			token["catalog"] = i.catalogFor(s.project)
		}
	}
	return map[string]any{"token": token}
}

// subject gives the session of the token that a request is about. Services and
// administrators may ask about everybody's, others about their own.
func (i *identity) subject(c echo.Context, grace time.Duration) (session, error) {
	caller := callerOf(c)
	s, ok := i.open(c.Request().Header.Get("X-Subject-Token"), grace)
	if !ok {
		return s, fault(http.StatusNotFound, "The token that the request is about is not valid.")
	}
	if s.UserID != caller.UserID && !caller.has("admin", "service") {
		return s, forbidden("identity:validate_token")
	}
	return s, nil
}

// validate is GET and HEAD /v3/auth/tokens.
func (i *identity) validate(c echo.Context) error {
	var grace time.Duration
	if allow := c.QueryParam("allow_expired"); (allow == "1" || allow == "true") && callerOf(c).has("service") {
		grace = i.cfg.ExpiredLife
	}
	s, err := i.subject(c, grace)
	if err != nil {
		return err
	}
	c.Response().Header().Set("X-Subject-Token", c.Request().Header.Get("X-Subject-Token"))
	c.Response().Header().Set("Vary", "X-Auth-Token")
	if c.Request().Method == http.MethodHead {
		return c.NoContent(http.StatusOK)
	}
	return c.JSON(http.StatusOK, i.tokenDocument(c, s))
}

// revoke is DELETE /v3/auth/tokens.
func (i *identity) revoke(c echo.Context) error {
	s, err := i.subject(c, 0)
	if err != nil {
		return err
	}
	if err := i.tokens.revoked.add(s.AuditID, s.ExpiresAt.Add(i.cfg.ExpiredLife)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
