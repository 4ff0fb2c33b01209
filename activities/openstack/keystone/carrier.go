package keystone

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"time"

	"strongroom/activities/secret"
	"strongroom/compute"
)

const (
	authToken    = "X-Auth-Token"
	serviceToken = "X-Service-Token"
	subjectToken = "X-Subject-Token"
)

// carrier sends a client's requests with its tokens: that of a login, or a user's
// beside that of strongroom's own login. A service takes an expired token of a user
// when a service token vouches for the request, for a time that the identity service
// sets (allow_expired_window).
type carrier struct {
	transport http.RoundTripper
	login     *login             // whose token it is, or whose vouches for user
	user      *secret.Passphrase // nil: the login acts for itself
	vouches   *login             // strongroom's own login, whose token goes beside that of another one of its logins; nil: none
}

// newUserCarrier takes the user's token over: it is wiped when the client is gone.
func newUserCarrier(transport http.RoundTripper, own *login, token *secret.Passphrase) *carrier {
	c := &carrier{transport: transport, login: own, user: token}
	runtime.AddCleanup(c, (*secret.Passphrase).Wipe, token)
	return c
}

// RoundTrip implements http.RoundTripper. What is answered with 401 is sent once more
// with a new token of the login, if its body can be sent again.
func (c *carrier) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	s, err := c.login.session(ctx)
	if err != nil {
		closeBody(request)
		return nil, err
	}
	var mine *session // whose token goes beside it
	if c.vouches != nil {
		if mine, err = c.vouches.session(ctx); err != nil {
			closeBody(request)
			return nil, err
		}
	}
	response, err := c.send(request, request.Body, s, mine)
	if err != nil {
		return nil, err
	}
	switch response.StatusCode {
	case http.StatusUnauthorized:
		body, ok := again(request)
		if !ok {
			return response, nil
		}
		drop(response)
		if s, err = c.login.renew(ctx, s); err != nil {
			return nil, err
		}
		if mine != nil { // nobody says which of them was refused
			if mine, err = c.vouches.renew(ctx, mine); err != nil {
				return nil, err
			}
		}
		return c.send(request, body, s, mine)
	case http.StatusServiceUnavailable:
		// What services also say when who gave a trust was disabled or lost a role:
		// the identity service does not call such a token wrong, it refuses to look.
		if c.login.scope.TrustID == "" {
			return response, nil
		}
		if _, err := c.login.renew(ctx, s); compute.Is(err, compute.Forbidden) {
			drop(response)
			return nil, err
		}
	}
	return response, nil
}

// send sends a copy of the request, as a RoundTripper must not change what it is given.
//
// A service finishes what it was asked to make, whether or not anybody still waits
// for the answer. Who gave up waiting would look for the thing to undo it before it is
// there, so what makes something is not given up once it was sent, and not sent where
// its caller may be gone before the answer.
func (c *carrier) send(request *http.Request, body io.ReadCloser, s, mine *session) (*http.Response, error) {
	copied := request.Clone(request.Context())
	copied.Body = body
	if ctx := request.Context(); makesAtOnce(request) && ctx.Err() == nil {
		if end, ok := ctx.Deadline(); ok && time.Until(end) < c.login.cloud.cfg.Connection.silence() {
			closeBody(copied)
			return nil, errTooLate
		}
		copied = copied.WithContext(context.WithoutCancel(ctx)) // bounded by the transport's patience
	}
	own := authToken
	if c.user != nil {
		own = serviceToken
		if err := put(copied, authToken, c.user); err != nil {
			closeBody(copied)
			return nil, err
		}
	}
	if err := put(copied, own, s.token); err != nil {
		closeBody(copied)
		return nil, err
	}
	if mine != nil {
		if err := put(copied, serviceToken, mine.token); err != nil {
			closeBody(copied)
			return nil, err
		}
	}
	return c.transport.RoundTrip(copied)
}

// errTooLate comes instead of an answer that the caller may not live to see.
var errTooLate = fmt.Errorf("there is no time left for the answer: %w", context.DeadlineExceeded)

// smallBytes is more than any document or passphrase has, and less than data.
const smallBytes = 64 << 10

// makesAtOnce reports whether a request makes something and carries all that is needed
// for it, unlike a transfer, which ends where it is cut off.
func makesAtOnce(request *http.Request) bool {
	if request.Method != http.MethodPost && request.Method != http.MethodPut {
		return false
	}
	nothing := request.Body == nil || request.Body == http.NoBody
	return nothing || request.ContentLength > 0 && request.ContentLength <= smallBytes
}

func put(request *http.Request, header string, token *secret.Passphrase) error {
	return token.Use(func(value []byte) error {
		request.Header.Set(header, string(value))
		return nil
	})
}

// again gives the request's body once more. A stream is not to be had twice.
func again(request *http.Request) (io.ReadCloser, bool) {
	if request.Body == nil || request.Body == http.NoBody {
		return request.Body, true
	}
	if request.GetBody == nil {
		return nil, false
	}
	body, err := request.GetBody()
	return body, err == nil
}

// drop ends a response that nobody will see, so that its connection can be used again.
func drop(response *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	_ = response.Body.Close()
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close()
	}
}
