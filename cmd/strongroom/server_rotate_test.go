package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"
)

// An operation that failed says why, where the compute service is strongroom.
func TestWhyFailed(t *testing.T) {
	t.Parallel()
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/servers/one/operations" || r.Header.Get("OpenStack-API-Version") != "compute "+clientVersion+", strongroom 1.0" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, `{"operations": [{"id": "req-2", "message": ""}, {"id": "req-1", "message": "no free key slot"}]}`)
	}))
	t.Cleanup(served.Close)
	client := &gophercloud.ServiceClient{
		ProviderClient: &gophercloud.ProviderClient{}, Endpoint: served.URL + "/", Type: "compute", Microversion: clientVersion,
	}
	r := &run{Context: t.Context()}
	require.Equal(t, "no free key slot", reasons(r, client, "one")["req-1"])
	require.Empty(t, reasons(r, client, "one")["req-2"])
	require.Empty(t, reasons(r, client, "two"), "another service")
	require.Equal(t, clientVersion, client.Microversion, "the client stays as it is")
}
