package keystone_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/openstack/keystone"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// twoRegions is an identity service whose catalog has a key manager and an object store in two
// regions; in the second one at the internal interface alone.
func twoRegions(t *testing.T) *keystone.Cloud {
	t.Helper()
	endpoint := func(region, face, url string) map[string]any {
		return map[string]any{"id": region + face, "interface": face, "region": region, "region_id": region, "url": url}
	}
	service := func(kind, path string) map[string]any {
		return map[string]any{"id": kind, "type": kind, "name": kind, "endpoints": []any{
			endpoint("One", "public", "https://one.example/"+kind+path), endpoint("One", "internal", "https://one.internal/"+kind+path),
			endpoint("Two", "internal", "https://two.internal/"+kind+path),
		}}
	}
	answer := map[string]any{"token": map[string]any{
		"expires_at": time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z"), "issued_at": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"),
		"user": map[string]any{"id": "u", "name": "strongroom"}, "project": map[string]any{"id": "p1", "name": "service"},
		"roles": []any{map[string]any{"id": "r", "name": "service"}}, "catalog": []any{service("key-manager", ""), service("object-store", "/AUTH_p1")},
	}}
	identity := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Subject-Token", "a-token")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(identity.Close)
	cloud, err := keystone.Open(t.Context(), keystone.Config{
		AuthURL: identity.URL + "/v3", Username: "strongroom", Password: secret.New([]byte("p")), Project: "service", Domain: "Default", Region: "One",
	})
	require.NoError(t, err)
	return cloud
}

// A service is where the cloud's region and interface say, or in a region, at the first of its
// interfaces that the catalog has, or at an address of its own.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	cloud := twoRegions(t)
	for name, v := range map[string]struct {
		service string
		at      keystone.Endpoint
		want    string
		fails   string
	}{
		"as the cloud":        {service: "key-manager", want: "https://one.example/key-manager/v1/"},
		"an interface":        {service: "key-manager", at: keystone.Endpoint{Interfaces: []string{"internal"}}, want: "https://one.internal/key-manager/v1/"},
		"the first there is":  {service: "object-store", at: keystone.Endpoint{Interfaces: []string{"admin", "public", "internal"}}, want: "https://one.example/object-store/AUTH_p1/"},
		"another region":      {service: "object-store", at: keystone.Endpoint{Region: "Two", Interfaces: []string{"public", "internal"}}, want: "https://two.internal/object-store/AUTH_p1/"},
		"not in that region":  {service: "key-manager", at: keystone.Endpoint{Region: "Two"}, fails: `no public endpoint of key-manager in region "Two"`},
		"none of those":       {service: "key-manager", at: keystone.Endpoint{Region: "Two", Interfaces: []string{"admin", "public"}}, fails: `no admin or public endpoint of key-manager in region "Two"`},
		"an address":          {service: "key-manager", at: keystone.Endpoint{URL: "https://keys.example:9311", Region: "Nowhere"}, want: "https://keys.example:9311/v1/"},
		"an address, version": {service: "key-manager", at: keystone.Endpoint{URL: "https://keys.example:9311/v1"}, want: "https://keys.example:9311/v1/"},
		"a project's address": {service: "object-store", at: keystone.Endpoint{URL: "https://objects.example/v1/AUTH_$(project_id)s"}, want: "https://objects.example/v1/AUTH_p1/"},
		"Glance's":            {service: "image", at: keystone.Endpoint{URL: "https://images.example:9292", Region: "Nowhere"}, want: "https://images.example:9292/v2/"},
		"Glance's, version":   {service: "image", at: keystone.Endpoint{URL: "https://images.example/image/v2/"}, want: "https://images.example/image/v2/"},
		"Nova's way":          {service: "object-store", at: keystone.Endpoint{URL: "https://objects.example/v1/AUTH_%(project_id)s"}, want: "https://objects.example/v1/AUTH_p1/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, v.at.Check())
			client, err := cloud.ClientsAt(v.service, v.at).Client(t.Context(), compute.DeploymentCredential())
			if v.fails != "" {
				require.ErrorContains(t, err, v.fails)
				require.Equal(t, compute.Unavailable, compute.KindOf(err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, v.want, client.ResourceBaseURL())
		})
	}
}

// What makes no sense is refused when a service starts.
func TestEndpointsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for _, e := range []keystone.Endpoint{
		{URL: "barbican"}, {URL: "ftp://barbican"}, {URL: "https://"}, {URL: "https://user:password@barbican"}, {URL: "https://barbican?a=b"},
		{Interfaces: []string{"public", "publicURL"}}, {Interfaces: []string{""}},
	} {
		err := e.Check()
		require.Equal(t, compute.Invalid, compute.KindOf(err), "%v", e)
		require.NotContains(t, err.Error(), "password")
	}
}
