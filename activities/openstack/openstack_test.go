package openstack_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"

	"strongroom/activities/openstack"
	"strongroom/compute"
)

// ask sends a request to a service that answers with status and header, and gives
// the error as the adapters see it.
func ask(t *testing.T, status int, header map[string]string) error {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte("you sent canary-value"))
	}))
	defer server.Close()
	client := gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{TokenID: "canary-token"}, Endpoint: server.URL + "/"}
	return openstack.Error(get(t.Context(), client), "look at secret 7")
}

// get asks for something whose name must not show.
func get(ctx context.Context, client gophercloud.ServiceClient) error {
	response, err := client.Get(ctx, client.ServiceURL("canary-path"), nil, nil)
	if response != nil {
		_ = response.Body.Close()
	}
	return err
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for status, kind := range map[int]compute.Kind{
		400: compute.Invalid, 401: compute.Forbidden, 403: compute.Forbidden, 404: compute.NotFound, 409: compute.Conflict,
		410: compute.NotFound, 413: compute.Invalid, 429: compute.Unavailable, 498: compute.Unavailable,
		500: compute.Unavailable, 502: compute.Unavailable, 503: compute.Unavailable,
	} {
		err := ask(t, status, nil)
		require.Equal(t, kind, compute.KindOf(err), "%d: %v", status, err)
		require.NotContains(t, err.Error(), "canary")
		require.ErrorContains(t, err, "look at secret 7: the service answered")
		var answer *openstack.Answer
		require.ErrorAs(t, err, &answer)
		require.Equal(t, status, answer.Status)
	}
	require.NoError(t, ask(t, 200, nil))
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-3": 0, "soon": 0, "86400": 5 * time.Minute, "Mon, 02 Jan 2006 15:04:05 GMT": 0,
	} {
		var busy interface{ RetryAfter() time.Duration }
		require.ErrorAs(t, ask(t, 503, map[string]string{"Retry-After": text}), &busy)
		require.Equal(t, want, busy.RetryAfter(), text)
	}
	var busy interface{ RetryAfter() time.Duration }
	require.ErrorAs(t, ask(t, 429, map[string]string{"Retry-After": time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)}), &busy)
	require.InDelta(t, time.Minute, busy.RetryAfter(), float64(5*time.Second))
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	client := gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{TokenID: "canary-token"}, Endpoint: "http://127.0.0.1:1/"}
	err := openstack.Error(get(t.Context(), client), "look")
	require.Equal(t, compute.Unavailable, compute.KindOf(err))
	require.NotContains(t, err.Error(), "canary")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, openstack.Error(get(ended, client), "look"), context.Canceled)
}

func TestALoginThatFails(t *testing.T) {
	t.Parallel()
	reauth := &gophercloud.ErrUnableToReauthenticate{
		ErrOriginal: gophercloud.ErrUnexpectedResponseCode{Actual: 401},
		ErrReauth:   gophercloud.ErrUnexpectedResponseCode{Actual: 503},
	}
	require.Equal(t, compute.Unavailable, compute.KindOf(openstack.Error(reauth, "x")))
	reauth.ErrReauth = gophercloud.ErrUnexpectedResponseCode{Actual: 401}
	require.Equal(t, compute.Forbidden, compute.KindOf(openstack.Error(reauth, "x")))
	after := &gophercloud.ErrErrorAfterReauthentication{ErrOriginal: gophercloud.ErrUnexpectedResponseCode{Actual: 404}}
	require.Equal(t, compute.NotFound, compute.KindOf(openstack.Error(after, "x")))
}

func TestErrorsWithAKindStay(t *testing.T) {
	t.Parallel()
	own := compute.Errorf(compute.Corrupt, "odd")
	require.Equal(t, error(own), openstack.Error(own, "x"))
	require.NoError(t, openstack.Error(nil, "x"))
	require.ErrorIs(t, openstack.Error(errors.ErrUnsupported, "x"), errors.ErrUnsupported)
}

// refusing is a transport that needs a login and is refused.
type refusing struct{ err error }

func (r refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, r.err }

func TestALoginThatARequestNeeds(t *testing.T) {
	t.Parallel()
	provider := &gophercloud.ProviderClient{HTTPClient: http.Client{Transport: refusing{compute.Errorf(compute.Forbidden, "the trust is gone")}}}
	client := gophercloud.ServiceClient{ProviderClient: provider, Endpoint: "http://127.0.0.1:1/"}
	err := openstack.Error(get(t.Context(), client), "look")
	require.Equal(t, compute.Forbidden, compute.KindOf(err))
	require.EqualError(t, err, "look: the trust is gone")
}
