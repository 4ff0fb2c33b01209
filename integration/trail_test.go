package integration_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/instanceactions"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
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
	await.Every(t, 30*time.Millisecond, "server "+id+" is at "+event, func() bool {
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
	}, c.progress(id), await.Witness{Name: "steps", Look: func() string { return strings.Join(begun, " ") }})
}
