package swift_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/objectstorage/v1/containers"
	"github.com/stretchr/testify/require"

	"strongroom/activities/object"
	"strongroom/activities/object/swift"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

// as is a store with one user's client, and that client.
func as(t *testing.T, provider *gophercloud.ProviderClient) (*object.Segmented, compute.Credential, *gophercloud.ServiceClient) {
	t.Helper()
	l := logins{}
	cred := l.add(t, provider)
	return &object.Segmented{Blobs: &swift.Blobs{Clients: l}}, cred, l[cred.ProjectID]
}

// TPM-08: who may store objects is told so, in a project that has never stored any, in one that
// has, and when no byte more may be stored than a vTPM's state needs; and nothing is stored by it.
func TestTPM08ObjectsCanBeStored(t *testing.T) {
	t.Parallel()
	project := cloudtest.NewProject(t)
	store, cred, client := as(t, project.Login(t))
	require.NoError(t, store.Check(t.Context(), cred))
	pages, err := containers.List(client, nil).AllPages(t.Context())
	require.NoError(t, err)
	none, err := pages.IsEmpty()
	require.NoError(t, err)
	require.True(t, none)

	put(t, store, cred, "servers/a/tpm")
	require.NoError(t, store.Check(t.Context(), cred))
	quota(t, project, "1000000")
	require.NoError(t, store.Check(t.Context(), cred))
	names, err := store.Blobs.List(t.Context(), cred, "", "", 10)
	require.NoError(t, err)
	require.Len(t, names, 2, "the object's manifest and segment alone: %v", names)
}

func put(t *testing.T, store *object.Segmented, cred compute.Credential, name string) {
	t.Helper()
	_, err := store.Put(t.Context(), object.PutInput{Credential: cred, Name: name, Size: 4}, bytes.NewReader([]byte("data")))
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Delete(context.Background(), cred, name) })
}

// quota is set by Swift's administrator.
func quota(t *testing.T, project cloudtest.Project, bytes string) {
	t.Helper()
	reseller(t, project, http.MethodPost, map[string]string{"X-Account-Meta-Quota-Bytes": bytes})
}

func reseller(t *testing.T, project cloudtest.Project, method string, headers map[string]string) {
	t.Helper()
	client, err := gopher.NewObjectStorageV1(project.Login(t, "ResellerAdmin"), cloudtest.Endpoint)
	require.NoError(t, err)
	response, err := client.Request(t.Context(), method, strings.TrimSuffix(client.Endpoint, "/"), &gophercloud.RequestOpts{MoreHeaders: headers, OkCodes: []int{204}})
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
}

// TPM-08, on the real Swift: who may read and not store, who has another service's role alone, a token
// that has ended, an account that is full or was deleted, and what is no Swift: each refuses a check, as
// storing would fail, and says why.
func TestTPM08ObjectsCannotBeStored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		roles []string
		when  func(*testing.T, cloudtest.Project, *gophercloud.ServiceClient)
		kind  compute.Kind
		says  string
	}{
		"a reader":             {[]string{"reader"}, nil, compute.Forbidden, "403 forbidden"},
		"another service's":    {[]string{"creator"}, nil, compute.Forbidden, "403 forbidden"},
		"a token that ended":   {nil, ended, compute.Forbidden, "401 unauthorized"},
		"an account over":      {nil, full("3"), compute.Conflict, "no room"},
		"an account as good":   {nil, full("5000"), compute.Conflict, "no room"},
		"a reader's full one":  {[]string{"reader"}, full("3"), compute.Forbidden, "403 forbidden"},
		"an account that went": {nil, deleted, compute.NotFound, "410 gone"},
		"no Swift": {nil, func(t *testing.T, _ cloudtest.Project, c *gophercloud.ServiceClient) {
			other, err := gopher.NewKeyManagerV1(c.ProviderClient, cloudtest.Endpoint)
			require.NoError(t, err)
			c.Endpoint = other.Endpoint + "none/"
		}, compute.NotFound, "404 not found"},
		"nobody there": {nil, func(_ *testing.T, _ cloudtest.Project, c *gophercloud.ServiceClient) {
			c.Endpoint = "http://127.0.0.1:1/v1/AUTH_x/"
		}, compute.Unavailable, "could not be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			project := cloudtest.NewProject(t)
			store, cred, client := as(t, project.Login(t, c.roles...))
			if c.when != nil {
				c.when(t, project, client)
			}
			err := store.Check(t.Context(), cred)
			require.Equal(t, c.kind, compute.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func ended(_ *testing.T, _ cloudtest.Project, c *gophercloud.ServiceClient) {
	c.ReauthFunc = nil
	c.SetToken("no-such-token")
}

// full has an owner's object fill the account.
func full(bytes string) func(*testing.T, cloudtest.Project, *gophercloud.ServiceClient) {
	return func(t *testing.T, project cloudtest.Project, _ *gophercloud.ServiceClient) {
		t.Helper()
		store, owner, _ := as(t, project.Login(t))
		put(t, store, owner, "servers/a/tpm")
		quota(t, project, bytes)
	}
}

// deleted has Swift's administrator delete the account.
func deleted(t *testing.T, project cloudtest.Project, client *gophercloud.ServiceClient) {
	t.Helper()
	require.NoError(t, containers.Create(t.Context(), client, "the-user-s", nil).Err) // makes the account
	reseller(t, project, http.MethodDelete, nil)
}

// TPM-08: a Swift that is ill or silent, which the real one cannot be made to be, is not available, and is not
// waited for longer than a user waits. One that takes anything is none.
func TestTPM08ObjectStoreIsIll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code int
		ctx  time.Duration
	}{
		"internal error": {code: 500}, "unavailable": {code: 503}, "bad gateway": {code: 502}, "too many requests": {code: 429}, "rate limited": {code: 498},
		"takes anything": {code: 201}, "silent": {ctx: 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			silent := make(chan struct{})
			ill := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.code == 0 {
					<-silent
					return
				}
				w.WriteHeader(c.code)
			}))
			t.Cleanup(ill.Close)
			t.Cleanup(func() { close(silent) })
			provider := &gophercloud.ProviderClient{}
			cred := compute.Credential{ID: uuid.New(), ProjectID: "p", UserID: "u"}
			store := object.Segmented{Blobs: &swift.Blobs{Clients: logins{"p": {ProviderClient: provider, Endpoint: ill.URL + "/v1/AUTH_p/"}}}}
			ctx := t.Context()
			if c.ctx > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.ctx)
				defer cancel()
			}
			err := store.Check(ctx, cred)
			require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
		})
	}
}
