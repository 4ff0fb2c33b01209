package integration_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// P16: a host that is up tells its uptime, which the openstack client takes apart.
func TestP16AHypervisorHasAnUptime(t *testing.T) {
	backends(t, local) // no service is asked
	c := sharedCloud(t)
	client := c.compute(t, "")
	client.Microversion = "2.88"
	var body struct {
		Hypervisors []struct{ State, Uptime string }
	}
	resp, err := client.Get(t.Context(), client.ServiceURL("os-hypervisors", "detail"), &body, nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NotEmpty(t, body.Hypervisors)
	for _, h := range body.Hypervisors {
		require.Equal(t, "up", h.State)
		require.Regexp(t, `^\s*\S+\sup\s+.+,\s+\d+\susers?,\s+load average:\s.+$`, h.Uptime)
	}
}
