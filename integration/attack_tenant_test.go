package integration_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"strongroom/activities/disk"
	"strongroom/deploy/await"
	"strongroom/durable"
	"strongroom/worker/pki"
)

var smallPlain = flavorSpec{"e2e-small", 64, 1, 0, 0, nil}

// burst is what one project asked for.
type burst struct {
	user string
	ids  []string
}

// asksFor asks for many servers of a user's project. They are deleted when the test ends.
func (c *testCloud) asksFor(t *testing.T, user string, n int) burst {
	t.Helper()
	client, flavor := c.compute(t, user), c.flavor(t, smallPlain)
	b := burst{user: user}
	t.Cleanup(func() {
		for _, id := range b.ids {
			_ = servers.Delete(context.Background(), client, id).ExtractErr()
		}
		for _, id := range b.ids {
			c.goneAs(t, user, id)
		}
	})
	for i := range n {
		s, err := servers.Create(t.Context(), client, servers.CreateOpts{
			Name: fmt.Sprintf("burst%s-%d", user, i), FlavorRef: flavor, ImageRef: c.idler, Networks: "none",
		}, nil).Extract()
		require.NoError(t, err)
		b.ids = append(b.ids, s.ID)
	}
	return b
}

// H6: a project asks for thirty servers, which all wait for the host, and then another one for
// three. The three take turns with the thirty: on the host's bulk queue each stands behind one of
// the other project's, and not behind all of them. What follows runs beside each other, so when they
// are ACTIVE is not as sharp: some of the thirty are later, at any rate.
func TestH6ABurstOfOneTenantAndAFewOfAnother(t *testing.T) {
	backends(t, local) // it is about queues of Temporal's; the servers have neither key nor object
	const many, few = 30, 3
	c := ownCloud(t)
	usual := c.withCPURatio(t, 64)
	defer usual()
	// What comes first downloads the image: the others find it.
	c.becomes(t, c.createIdle(t, smallPlain), "ACTIVE")

	queue := durable.HostBulkQueue(c.hostID(t, c.Host(1)))
	middle := c.hold(t, disk.CacheImage.Name+"@before")
	attacker := c.asksFor(t, "-demo", many)
	middle.waits(t, c.progress(attacker.ids[0]))
	const slots = 3 // of the queue, which the attacker has all
	c.waits(t, queue, many-slots)
	other := c.asksFor(t, "-alt", few)
	c.waits(t, queue, many-slots+few)
	middle.release()
	for _, b := range []burst{attacker, other} {
		for _, id := range b.ids {
			s := c.settledAs(t, b.user, id)
			require.Equal(t, "ACTIVE", s.Status, "fault: %s", s.Fault.Message)
		}
	}

	began, ended := map[string]time.Time{}, map[string]time.Time{}
	took := map[string]time.Duration{}
	for _, b := range []burst{attacker, other} {
		for _, id := range b.ids {
			began[id] = c.startedLast(t, id, disk.CacheImage.Name)
			var asked, done time.Time
			require.NoError(t, c.database(t).QueryRow(t.Context(), "SELECT accepted_at, finished_at FROM operations WHERE server_id = $1", id).Scan(&asked, &done))
			ended[id] = done
			took[b.user] += done.Sub(asked) / time.Duration(len(b.ids))
		}
	}
	turn := last(began, other.ids) - slots
	t.Logf("on the host's bulk queue the few were taken within %d of those that waited, in turn it is %d: ratio %.2f", turn, 2*few, float64(turn)/(2*few))
	end := last(ended, other.ids)
	t.Logf("the few were ACTIVE within %d of all %d; a create of theirs took %.1f s, one of the burst %.1f s: ratio %.2f",
		end, many+few, took[other.user].Seconds(), took[attacker.user].Seconds(), took[other.user].Seconds()/took[attacker.user].Seconds())
	require.LessOrEqual(t, turn, few*3) // a ratio of 1.5
	require.LessOrEqual(t, end, many, "a few of the burst end after them")
}

// last gives the place of the last of some among all, from 1.
func last(at map[string]time.Time, of []string) (place int) {
	order := make([]string, 0, len(at))
	for id := range at {
		order = append(order, id)
	}
	slices.SortFunc(order, func(a, b string) int { return at[a].Compare(at[b]) })
	for i, id := range order {
		if slices.Contains(of, id) {
			place = i + 1
		}
	}
	return place
}

// withCPURatio has the first host take more virtual CPUs. usual ends that.
func (c *testCloud) withCPURatio(t *testing.T, ratio int) (usual func()) {
	t.Helper()
	was, err := os.ReadFile(c.HostConfigFile())
	require.NoError(t, err)
	with := func(text string) {
		require.NoError(t, os.WriteFile(c.HostConfigFile(), []byte(text), 0o600))
		c.restartHost(t, c.Host(1))
	}
	with(strings.Replace(string(was), "host:\n", fmt.Sprintf("host:\n    cpu_ratio: %d\n", ratio), 1))
	return func() { with(string(was)) }
}

// waits waits until so many tasks wait in a queue.
func (c *testCloud) waits(t *testing.T, queue string, n int) {
	t.Helper()
	temporal, err := c.DialTemporal(pki.Operator)
	require.NoError(t, err)
	defer temporal.Close()
	waiting := int64(0)
	await.For(t, fmt.Sprintf("%d tasks wait in %s", n, queue), func() bool {
		got, err := temporal.DescribeTaskQueueEnhanced(t.Context(), client.DescribeTaskQueueEnhancedOptions{
			TaskQueue: queue, TaskQueueTypes: []client.TaskQueueType{client.TaskQueueTypeActivity}, ReportStats: true,
		})
		require.NoError(t, err)
		waiting = 0
		for _, version := range got.VersionsInfo { //nolint:staticcheck // the only way to ask for it
			waiting += version.TypesInfo[client.TaskQueueType(enumspb.TASK_QUEUE_TYPE_ACTIVITY)].Stats.ApproximateBacklogCount
		}
		return waiting == int64(n)
	}, await.Witness{Name: "wait", Look: func() string { return fmt.Sprint(waiting) }})
}

// startedLast is when the newest call of an activity in a server's create was taken by a worker.
func (c *testCloud) startedLast(t *testing.T, id, activity string) (at time.Time) {
	t.Helper()
	scheduled := map[int64]bool{}
	for _, e := range c.history(t, id) {
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == activity {
			scheduled[e.GetEventId()] = true
		}
		if a := e.GetActivityTaskStartedEventAttributes(); scheduled[a.GetScheduledEventId()] {
			at = e.GetEventTime().AsTime()
		}
	}
	require.False(t, at.IsZero(), "%s was not called", activity)
	return at
}
