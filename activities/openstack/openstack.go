// Package openstack is what the adapters for OpenStack services share: the port
// that gives them clients, and what a service's answer means.
package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"strongroom/compute"
)

// Clients gives clients of one service.
type Clients interface {
	// Client gives a client that acts with the authority that the credential
	// refers to. Forbidden: there is none any more; Unavailable: it cannot be told
	// now. A service that hangs must not hang the client for ever, but long
	// transfers must get through: its transport wants a ResponseHeaderTimeout, not
	// the http.Client a Timeout.
	Client(ctx context.Context, cred compute.Credential) (*gophercloud.ServiceClient, error)
}

// Answer is a service's refusal: its status alone. What it wrote is left behind,
// for that may repeat what it was sent.
type Answer struct {
	Status int
	after  time.Duration
}

func (a *Answer) Error() string {
	return fmt.Sprintf("the service answered %d %s", a.Status, strings.ToLower(http.StatusText(a.Status)))
}

// PublicText says that users are shown the answer: it holds nothing but the status.
func (a *Answer) PublicText() string { return a.Error() }

// RetryAfter is the wait that the service asked for, 0 if it did not.
func (a *Answer) RetryAfter() time.Duration { return a.after }

// Error turns an error of a client call into one with a kind; what says in words
// what was tried, without any value. nil and errors that have a kind stay.
func Error(err error, what string) error {
	var transport *url.Error
	var own *compute.Error
	if errors.As(err, &transport) && errors.As(transport.Err, &own) {
		return compute.Errorf(own.Kind, "%s: %w", what, own) // a login that a request needed
	}
	if err == nil || errors.As(err, &own) {
		return err
	}
	if answer := answerOf(err); answer != nil {
		return compute.Errorf(kindOf(answer.Status), "%s: %w", what, answer)
	}
	if transport != nil {
		err = transport.Err // without the address, which may name what is nobody's business
	}
	return compute.Errorf(compute.Unavailable, "%s: the service could not be reached: %w", what, err)
}

// answerOf gives the answer that is in err's chain.
func answerOf(err error) *Answer {
	var unable *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &unable) {
		err = unable.ErrReauth
	}
	var after *gophercloud.ErrErrorAfterReauthentication
	if errors.As(err, &after) {
		err = after.ErrOriginal
	}
	var code gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &code) {
		return nil
	}
	return &Answer{Status: code.Actual, after: retryAfter(code.ResponseHeader, time.Now())}
}

// kindOf is what a status means for the caller. 401 is no reason to try again: the
// token has ended, and a new one is the credential's matter.
func kindOf(status int) compute.Kind {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return compute.Forbidden
	case http.StatusNotFound, http.StatusGone:
		return compute.NotFound
	case http.StatusConflict:
		return compute.Conflict
	case http.StatusRequestTimeout, http.StatusTooManyRequests, 498: // Swift's rate limit
		return compute.Unavailable
	}
	if status >= 400 && status < 500 {
		return compute.Invalid
	}
	return compute.Unavailable
}

// maxRetryAfter bounds what a service may ask for with Retry-After.
const maxRetryAfter = 5 * time.Minute

// retryAfter reads the header: seconds, or a date.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := header.Get("Retry-After")
	wait := time.Duration(0)
	if seconds, err := strconv.Atoi(text); err == nil {
		wait = time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	} else if date, err := http.ParseTime(text); err == nil {
		wait = date.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}
