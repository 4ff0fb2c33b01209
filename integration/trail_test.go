package integration_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/instanceactions"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newestAction gives the newest entry of a server's trail.
func (c *testCloud) newestAction(t *testing.T, id string) instanceactions.InstanceAction {
	t.Helper()
	pages, err := instanceactions.List(c.compute(t, ""), id, nil).AllPages(t.Context())
	require.NoError(t, err)
	actions, err := instanceactions.ExtractInstanceActions(pages)
	require.NoError(t, err)
	require.NotEmpty(t, actions)
	return actions[0]
}

// newestEvents are the steps that the newest operation of a server has begun.
func (c *testCloud) newestEvents(t *testing.T, id string) (begun []string) {
	t.Helper()
	detail, err := instanceactions.Get(t.Context(), c.compute(t, ""), id, c.newestAction(t, id).RequestID).Extract()
	require.NoError(t, err)
	require.NotNil(t, detail.Events)
	for _, e := range *detail.Events {
		begun = append(begun, e.Event)
	}
	return begun
}

// reaches waits until the newest operation of a server has begun a step.
func (c *testCloud) reaches(t *testing.T, id, event string) {
	t.Helper()
	client := c.compute(t, "")
	var begun []string
	reached := func() bool {
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
		begun = begun[:0]
		for _, e := range *detail.Events {
			begun = append(begun, e.Event)
		}
		return slices.Contains(begun, event)
	}
	if !assert.Eventually(t, reached, settleTimeout, 30*time.Millisecond) {
		t.Fatalf("no step %s; begun: %v", event, begun)
	}
}
