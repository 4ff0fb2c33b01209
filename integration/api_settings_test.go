package integration_test

import (
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
)

// M2, M6: the api that runs ends a statement that takes too long, instead of keeping its connection and
// its client, and makes links as its configuration says, whatever a client's headers say.
func TestM2M6TheAPIAsItIsConfigured(t *testing.T) {
	backends(t, local) // no service is asked
	c := ownCloud(t)
	c.configured(t, "api", "api", map[string]any{"public_url": "https://cloud.example.org/compute"})
	client := c.compute(t, "-demo")
	id := c.createIdle(t, smallEncrypted)
	c.becomes(t, id, "ACTIVE")
	s, err := servers.Get(t.Context(), client, id).Extract()
	require.NoError(t, err)
	require.Contains(t, s.Links[0].(map[string]any)["href"], "https://cloud.example.org/compute/")

	db := c.database(t)
	tx, err := db.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE servers IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, client.ServiceURL("servers", id), nil)
	require.NoError(t, err)
	request.Header.Set("X-Auth-Token", client.Token())
	answer, err := http.DefaultClient.Do(request) // without an end to the statement there is no answer
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.NotEmpty(t, answer.Header.Get("Retry-After"))
	require.NoError(t, tx.Rollback(t.Context()))
	c.delete(t, id)
	c.nothingIsLeft(t)
}
