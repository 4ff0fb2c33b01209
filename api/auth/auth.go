// Package auth validates the token of a request with the identity service.
package auth

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/sapcc/go-bits/gopherpolicy"
	"golang.org/x/sync/singleflight"
)

// Header carries a client's token.
const Header = "X-Auth-Token"

// Config of a Validator.
type Config struct {
	Identity *gophercloud.ServiceClient // identity v3, with credentials that may validate tokens
	Enforcer gopherpolicy.Enforcer
	URI      string                     // the identity service as clients reach it, named in a 401
	Client   func(*http.Request) string // the address of a request's client
	Now      func() time.Time
}

// Validator checks tokens against the identity service.
type Validator struct {
	Config
	tokens  gopherpolicy.TokenValidator
	refused *Cache // tokens that the identity service did not know a moment ago
	gate    *gate
	asking  singleflight.Group
}

// New makes a Validator.
func New(cfg Config) *Validator {
	return &Validator{
		Config: cfg, refused: NewCache(cfg.Now, RefusedTTL), gate: newGate(),
		tokens: gopherpolicy.TokenValidator{IdentityV3: cfg.Identity, Enforcer: cfg.Enforcer, Cacher: NewCache(cfg.Now, CacheTTL)},
	}
}

// patience bounds how long a request waits for the validation of its token.
const patience = 20 * time.Second

// Token validates the request's token. The error is a *Refusal. Its text never
// holds what the identity service answered: that may quote the token.
func (v *Validator) Token(r *http.Request) (*gopherpolicy.Token, error) {
	text := r.Header.Get(Header)
	if text == "" {
		return nil, v.unauthorized()
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	token := v.tokens.CheckCredentials(ctx, text, func() gopherpolicy.TokenResult { return failed(errNotCached) })
	if errors.Is(token.Err, errNotCached) {
		token = v.validate(ctx, v.Client(r), text)
	}
	switch {
	case token.Err == nil:
		return token, nil
	case gophercloud.ResponseCodeIs(token.Err, http.StatusNotFound), errors.Is(token.Err, errRefused):
		return nil, v.unauthorized()
	default:
		return nil, &Refusal{Code: http.StatusServiceUnavailable, Message: "The Keystone service is temporarily unavailable.", Reason: reason(token.Err)}
	}
}

var (
	errNotCached = errors.New("nothing is known of this token")
	errRefused   = errors.New("the token was refused a moment ago")
	errKnownNow  = errors.New("the token became known a moment ago")
)

// validate asks the identity service, when the client's turn has come. Meanwhile another
// request may have learned of the token. The place is free again when the identity service
// has answered, also where the client has gone by then.
func (v *Validator) validate(ctx context.Context, client, text string) *gopherpolicy.Token {
	if v.isRefused(ctx, text) {
		return &gopherpolicy.Token{Err: errRefused}
	}
	leave, err := v.gate.enter(ctx, client)
	if err != nil {
		return &gopherpolicy.Token{Err: err}
	}
	if v.isRefused(ctx, text) {
		leave()
		return &gopherpolicy.Token{Err: errRefused}
	}
	answer := v.ask(ctx, text, leave)
	return v.tokens.CheckCredentials(ctx, text, func() gopherpolicy.TokenResult { return answer })
}

func (v *Validator) isRefused(ctx context.Context, text string) bool {
	return v.refused.LoadTokenPayload(ctx, text) != nil
}

// ask asks once for all requests that have the same token at the same time. A request that
// ends does not take the answer from the others. done is called when there is an answer: it is
// in the cache by then, and errKnownNow says that it was there before.
func (v *Validator) ask(ctx context.Context, text string, done func()) gopherpolicy.TokenResult {
	answered := v.asking.DoChan(text, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		result := failed(errKnownNow)
		// Into the cache before the next request for it may ask.
		v.tokens.CheckCredentials(ctx, text, func() gopherpolicy.TokenResult {
			result = tokens.Get(ctx, v.Identity, text)
			assumeAdminProject(result)
			return result
		})
		if gophercloud.ResponseCodeIs(result.Err, http.StatusNotFound) {
			v.refused.StoreTokenPayload(ctx, text, []byte("refused"))
		}
		return result, nil
	})
	select {
	case <-ctx.Done():
		go func() {
			<-answered
			done()
		}()
		return failed(ctx.Err())
	case got := <-answered:
		done()
		result, ok := got.Val.(tokens.GetResult)
		if !ok {
			return failed(got.Err)
		}
		return result
	}
}

// assumeAdminProject has a token's project be the one for administrators where the identity service does not say. It says so only in a cloud that has
// such a project, and Nova takes each project for it elsewhere (K5).
func assumeAdminProject(result tokens.GetResult) {
	body, _ := result.Body.(map[string]any)
	token, _ := body["token"].(map[string]any)
	if _, said := token["is_admin_project"]; token != nil && !said {
		token["is_admin_project"] = true
	}
}

// failed is the result of a validation that came to nothing.
func failed(err error) tokens.GetResult {
	var result tokens.GetResult
	result.Err = err
	return result
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
