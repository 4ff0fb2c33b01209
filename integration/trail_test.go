package integration_test

import (
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/instanceactions"
	"github.com/stretchr/testify/require"
)

// reaches waits until the newest operation of a server has begun a step.
func (c *testCloud) reaches(t *testing.T, id, event string) {
	t.Helper()
	client := c.compute(t, "")
	require.Eventually(t, func() bool {
		pages, err := instanceactions.List(client, id, nil).AllPages(t.Context())
		if err != nil {
			return false
		}
		actions, err := instanceactions.ExtractInstanceActions(pages)
		if err != nil || len(actions) == 0 {
			return false
		}
		detail, err := instanceactions.Get(t.Context(), client, id, actions[0].RequestID).Extract()
		if err != nil || detail.Events == nil {
			return false
		}
		for _, e := range *detail.Events {
			if e.Event == event {
				return true
			}
		}
		return false
	}, settleTimeout, 30*time.Millisecond)
}
