package compute_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// publicCause is an error that says itself what users may read.
type publicCause struct{}

func (publicCause) Error() string      { return "answered by https://inside.example/v2" }
func (publicCause) PublicText() string { return "the service answered 409" }

// TestLowPublicTexts: users are told what they can do, and nothing of hosts and services.
func TestLowPublicTexts(t *testing.T) {
	t.Parallel()
	file := &fs.PathError{Op: "open", Path: "/var/lib/strongroom/images/x", Err: fs.ErrNotExist}
	address := &url.Error{Op: "Get", URL: "http://10.0.0.7:9710/console/x", Err: errors.New("refused")}
	const (
		later = "a host or a service could not do it; try again later"
		ask   = "an error inside of the service; ask the cloud's operator, who finds more under the request id"
	)
	for name, c := range map[string]struct {
		err    error
		public string
	}{
		"ids alone":           {compute.Errorf(compute.Conflict, "disk %s exists with %d bytes", "d", 7), "disk d exists with 7 bytes"},
		"a path in the cause": {compute.Errorf(compute.Unavailable, "image %s: %w", "x", file), "image x: " + later},
		"a URL in the cause":  {compute.Errorf(compute.Unavailable, "the host does not answer: %w", address), "the host does not answer: " + later},
		"a cause that is not wrapped": {
			compute.Errorf(compute.Unavailable, "the host does not answer: %v", address), "the host does not answer: " + later,
		},
		"a cause of a kind": {
			compute.Errorf(compute.Unavailable, "server s: %w", compute.Errorf(compute.NoHost, "the host is full: %w", file)),
			"server s: the host is full: no host can do it now; try again later, or ask the cloud's operator",
		},
		"a cause that is public":  {compute.Errorf(compute.Conflict, "making image x: %w", publicCause{}), "making image x: the service answered 409"},
		"wrapped":                 {fmt.Errorf("in %s: %w", file.Path, compute.Errorf(compute.Conflict, "disk d is in use")), "disk d is in use"},
		"a path in the text":      {compute.Errorf(compute.Unavailable, "the keyring %s has no key", "/etc/ceph/ceph.keyring"), later},
		"a quoted path":           {compute.Errorf(compute.Unavailable, "the keyring '%s' has no key", "/etc/ceph"), later},
		"a URL in the text":       {compute.Errorf(compute.Unavailable, "the service at %s is away", "https://inside.example"), later},
		"no kind":                 {errors.New("open /etc/shadow: no"), ask},
		"no kind, and not public": {compute.Errorf("", "%w", file), ask},
		"without a text":          {&compute.Error{Kind: compute.Unavailable, Message: "at /srv/x/y"}, later},
		"a kind from elsewhere":   {compute.Told("ServerError", "at /srv/x/y", ""), ask},
		"slashes that name no path": {
			compute.Errorf(compute.Invalid, "and/or 1/2"), "and/or 1/2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.public, compute.Public(c.err))
		})
	}
}
