package devcloud

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
)

// loginRequest is the body of POST /v3/auth/tokens.
type loginRequest struct {
	Auth struct {
		Identity struct {
			Methods  []string `json:"methods"`
			Password struct {
				User struct {
					ID       string     `json:"id"`
					Name     string     `json:"name"`
					Domain   *reference `json:"domain"`
					Password string     `json:"password"`
				} `json:"user"`
			} `json:"password"`
			Token struct {
				ID string `json:"id"`
			} `json:"token"`
		} `json:"identity"`
		Scope json.RawMessage `json:"scope"`
	} `json:"auth"`
}

// reference names a thing by id or by name.
type reference struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// isDefault reports whether it names the one domain.
func (r *reference) isDefault() bool { return r != nil && (r.ID == domainID || r.Name == domainName) }

// login is POST /v3/auth/tokens. Whatever is wrong, the answer is the same.
func (i *identity) login(c echo.Context) error {
	var in loginRequest
	if err := readJSON(c, &in); err != nil {
		return err
	}
	users := i.users.now()
	who, ends, ok := i.identify(users, in)
	if !ok {
		return unauthorized()
	}
	scope, ok := users.scope(in.Auth.Scope)
	if !ok {
		return unauthorized()
	}
	who.ProjectID = ""
	if scope != nil {
		who.ProjectID = scope.ID
	}
	token, made, err := i.tokens.issue(who, i.cfg.TokenLife, ends)
	if err != nil {
		return err
	}
	session, ok := i.users.now().session(made)
	if !ok {
		return unauthorized()
	}
	c.Response().Header().Set("X-Subject-Token", token)
	c.Response().Header().Set("Vary", "X-Auth-Token")
	return c.JSON(http.StatusCreated, i.tokenDocument(c, session))
}

// identify finds out who logs in. A token made from a token ends when the first
// one does: rescoping prolongs nothing.
func (i *identity) identify(users *directory, in loginRequest) (who claims, ends time.Time, ok bool) {
	methods := in.Auth.Identity.Methods
	switch {
	case slices.Equal(methods, []string{"password"}):
		u := users.named(in)
		if !users.checkPassword(u, in.Auth.Identity.Password.User.Password) {
			return claims{}, ends, false
		}
		return claims{UserID: u.ID, Logins: u.Logins, Methods: methods}, ends, true
	case slices.Equal(methods, []string{"token"}):
		old, ok := i.open(in.Auth.Identity.Token.ID, 0)
		if !ok {
			return claims{}, ends, false
		}
		all := old.Methods
		if !slices.Contains(all, "token") {
			all = append(slices.Clone(all), "token")
		}
		return claims{UserID: old.UserID, Logins: old.Logins, Methods: all}, old.ExpiresAt, true
	}
	return claims{}, ends, false
}

func (d *directory) named(in loginRequest) *user {
	asked := in.Auth.Identity.Password.User
	if asked.ID != "" {
		return d.user(asked.ID)
	}
	if !asked.Domain.isDefault() {
		return nil
	}
	return d.userNamed(asked.Name)
}

// scope reads what the token shall be for: nil is nothing in particular.
func (d *directory) scope(raw json.RawMessage) (*project, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" || string(raw) == `"unscoped"` {
		return nil, true
	}
	var in struct {
		Unscoped *struct{} `json:"unscoped"`
		Project  *struct {
			reference
			Domain *reference `json:"domain"`
		} `json:"project"`
	}
	if json.Unmarshal(raw, &in) != nil {
		return nil, false
	}
	switch {
	case in.Unscoped != nil && in.Project == nil:
		return nil, true
	case in.Project == nil: // a domain, the system, a trust: there are none here
		return nil, false
	}
	var p *project
	if in.Project.ID != "" {
		p = d.project(in.Project.ID)
	} else if in.Project.Domain.isDefault() {
		p = d.projectNamed(in.Project.Name)
	}
	return p, p != nil
}
