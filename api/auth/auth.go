// Package auth validates the token of a request with the identity service.
package auth

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/sapcc/go-bits/gopherpolicy"
)

// Header carries a client's token.
const Header = "X-Auth-Token"

// Validator checks tokens against the identity service.
type Validator struct {
	Identity *gophercloud.ServiceClient // identity v3, with credentials that may validate tokens
	Enforcer gopherpolicy.Enforcer
	Cache    gopherpolicy.Cacher
	URI      string // the identity service as clients reach it, named in a 401
}

// Token validates the request's token. The error is a *Refusal. Its text never
// holds what the identity service answered: that may quote the token.
func (v *Validator) Token(r *http.Request) (*gopherpolicy.Token, error) {
	text := r.Header.Get(Header)
	if text == "" {
		return nil, v.unauthorized()
	}
	tv := gopherpolicy.TokenValidator{IdentityV3: v.Identity, Enforcer: v.Enforcer, Cacher: v.Cache}
	token := tv.CheckCredentials(r.Context(), text, func() gopherpolicy.TokenResult {
		return tokens.Get(r.Context(), v.Identity, text)
	})
	switch {
	case token.Err == nil:
		return token, nil
	case gophercloud.ResponseCodeIs(token.Err, http.StatusNotFound):
		return nil, v.unauthorized()
	default:
		return nil, &Refusal{Code: http.StatusServiceUnavailable, Message: "The Keystone service is temporarily unavailable.", Reason: reason(token.Err)}
	}
}

func (v *Validator) unauthorized() *Refusal {
	return &Refusal{Code: http.StatusUnauthorized, Message: "The request you have made requires authentication.", URI: v.URI}
}

// reason says why validation failed in words that cannot hold a token.
func reason(err error) string {
	var answered gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answered) {
		return "the identity service answered " + http.StatusText(answered.Actual)
	}
	return "the identity service did not answer"
}

// Refusal is the answer to a request that was not let in, in the shape of
// keystonemiddleware.
type Refusal struct {
	Code    int
	Message string
	URI     string
	Reason  string // for the log
}

func (f *Refusal) Error() string { return f.Message }

// Write answers a request with the refusal.
func (f *Refusal) Write(w http.ResponseWriter) error {
	if f.Code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Keystone uri="`+f.URI+`"`)
	}
	body, err := json.Marshal(map[string]any{"error": map[string]any{
		"code": f.Code, "title": http.StatusText(f.Code), "message": f.Message,
	}})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Code)
	_, err = w.Write(body)
	return err
}
