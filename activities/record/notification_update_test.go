package record_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/notification"
	"strongroom/activities/record"
	"strongroom/compute"
)

// consumer is a broker that keeps so many messages of a batch, and then fails.
type consumer struct {
	most int
	got  []notification.Message
}

func (c *consumer) Send(_ context.Context, messages []notification.Message) (int, error) {
	if taken := min(c.most, len(messages)); taken < len(messages) {
		c.got = append(c.got, messages[:taken]...)
		return taken, errors.New("broken")
	}
	c.got = append(c.got, messages...)
	return len(messages), nil
}

func (*consumer) Close() {}

// tell has servers' changes told, or not.
func (b *bundle) tell(change notification.StateChange) {
	b.t.Helper()
	b.Notifications = &notification.Writer{StateChange: change, Logger: slog.New(slog.DiscardHandler)}
	require.NoError(b.t, b.Notifications.Configure(b.ctx, b.q))
}

// sent sends what waits, and gives it.
func (b *bundle) sent() (all []told) {
	b.t.Helper()
	c := &consumer{most: 1000}
	_, err := (&notification.Sender{Pool: b.DB, Broker: c, Writer: b.Notifications}).Send(b.ctx)
	require.NoError(b.t, err)
	require.Zero(b.t, b.CountRows("SELECT count(*) FROM notifications"))
	for _, m := range c.got {
		n := unpack(b.t, m.Body)
		require.Equal(b.t, m.ID, n.MessageID.String())
		require.Equal(b.t, m.Priority, n.Priority)
		all = append(all, n)
	}
	return all
}

func (b *bundle) sentUpdate() told {
	b.t.Helper()
	all := b.sent()
	require.Len(b.t, all, 1)
	return all[0]
}

func events(of []told) (names []string) {
	for _, n := range of {
		names = append(names, n.Event)
	}
	return names
}

// SH-24: the database records no change of a server where nobody wants to know: without a broker, and
// without notify_on_state_change. It stops when an operator takes it away.
func TestSH24NoUpdateIsToldByDefault(t *testing.T) {
	t.Parallel()
	b := setup(t)
	change := func() {
		in := b.server(compute.OpCreate)
		b.Exec("UPDATE servers SET vm_state = 'active' WHERE id = $1", in.Server)
	}
	waiting := func() int { return b.CountRows("SELECT count(*) FROM notifications") }
	change()
	require.Zero(t, waiting(), "nothing was configured")
	for _, off := range []*notification.Writer{nil, {}} {
		b.tell(notification.VMStateChange)
		change()
		require.Equal(t, 2, waiting())
		b.Exec("DELETE FROM notifications")
		require.NoError(t, off.Configure(b.ctx, b.q))
		change()
		require.Zero(t, waiting())
	}
}

// SH-24: what instance.update says of a change of states, of a name and of anything else, for each
// setting, is what Nova's says.
func TestSH24AnUpdateSaysWhatChanged(t *testing.T) {
	t.Parallel()
	const states, tasks = notification.VMStateChange, notification.VMAndTaskStateChange
	for name, c := range map[string]struct {
		set    string // of a server that is active, and being stopped or, where idle is set, at rest
		idle   bool
		states map[notification.StateChange][4]any // old and new vm_state, old and new task_state
		name   any                                 // the former one
	}{
		"vm_state": {set: "vm_state = 'stopped', task_state = ''", states: map[notification.StateChange][4]any{
			states: {"active", "stopped", "powering-off", nil}, tasks: {"active", "stopped", "powering-off", nil},
		}},
		"task_state": {set: "task_state = ''", states: map[notification.StateChange][4]any{
			states: {"active", "active", nil, nil}, tasks: {"active", "active", "powering-off", nil},
		}},
		"the first task_state": {set: "task_state = 'pausing'", idle: true, states: map[notification.StateChange][4]any{
			states: {"active", "active", "pausing", "pausing"}, tasks: {"active", "active", "pausing", "pausing"},
		}},
		"power_state": {set: "power_state = 4", states: map[notification.StateChange][4]any{
			states: {"active", "active", "powering-off", "powering-off"}, tasks: {"active", "active", "powering-off", "powering-off"},
		}},
		"name": {set: "name = 'other'", name: "vm", states: map[notification.StateChange][4]any{
			states: {"active", "active", "powering-off", "powering-off"}, tasks: {"active", "active", "powering-off", "powering-off"},
		}},
		"metadata": {set: `metadata = '{"a": "b"}'`, states: map[notification.StateChange][4]any{
			states: {"active", "active", "powering-off", "powering-off"}, tasks: {"active", "active", "powering-off", "powering-off"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			in := b.server(compute.OpStop)
			for setting, want := range c.states {
				b.Exec(`UPDATE servers SET vm_state = 'active', task_state = CASE WHEN $2 THEN '' ELSE 'powering-off' END, power_state = 1,
					name = 'vm', metadata = '{}', tags = '{a,b}' WHERE id = $1`, in.Server, c.idle)
				b.tell(setting)
				b.Exec("DELETE FROM notifications")
				b.Exec("UPDATE servers SET updated_at = now(), progress = progress + 1, fault = '{}', resume_at = now() WHERE id = $1", in.Server)
				b.Exec("UPDATE servers SET "+c.set+" WHERE id = $1", in.Server)
				b.Exec("UPDATE notifications SET created_at = '2026-02-28T23:59:58.5Z'")
				n := b.sentUpdate()
				require.Equal(t, []string{"instance.update", "INFO", "nova-conductor:strongroom", "2026-02-28 23:59:58.500000"},
					[]string{n.Event, n.Priority, n.PublisherID, n.Timestamp})
				require.Equal(t, []string{"InstanceUpdatePayload", "2.1"}, []string{n.Payload.Name, n.Payload.Version})
				keys := slices.DeleteFunc(slices.Clone(instanceKeys), func(key string) bool { return key == "fault" })
				require.ElementsMatch(t, append(keys, "state_update", "audit_period", "old_display_name", "tags"), slices.Collect(maps.Keys(n.Payload.Data)))
				update := nested(t, n.Payload.Data, "state_update")
				require.Len(t, update, 4)
				require.Equal(t, want, [4]any{update["old_state"], update["state"], update["old_task_state"], update["new_task_state"]}, setting)
				require.Equal(t, []any{want[1], want[3]}, []any{n.Payload.Data["state"], n.Payload.Data["task_state"]})
				require.Equal(t, c.name, n.Payload.Data["old_display_name"])
				require.Equal(t, []any{"a", "b"}, n.Payload.Data["tags"])
				require.Equal(t, map[string]any{"audit_period_beginning": "2026-02-01T00:00:00Z", "audit_period_ending": "2026-02-28T23:59:58Z"},
					nested(t, n.Payload.Data, "audit_period"))
				require.Equal(t, []any{string(in.Operation), owner.UserID}, []any{n.Payload.Data["request_id"], n.Payload.Data["action_initiator_user"]})
			}
		})
	}
}

// SH-24: the changes of a server are told in the order in which they were made, among what is told of its
// operations, each with the states of its moment, and again with the same id where the broker
// did not take them. One that was not committed is not told.
func TestSH24UpdatesAreToldInOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tell(notification.VMAndTaskStateChange)
	in := b.server(compute.OpCreate)
	b.run(in, record.SettleInput{State: compute.OperationSucceeded, VMState: compute.VMActive, Power: compute.PowerRunning, Launched: true})
	tx, err := b.DB.Begin(b.ctx)
	require.NoError(t, err)
	_, err = tx.Exec(b.ctx, "UPDATE servers SET vm_state = 'error'")
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(b.ctx))
	b.Exec("UPDATE servers SET name = 'other' WHERE id = $1", in.Server)

	failing := &consumer{most: 1}
	sender := &notification.Sender{Pool: b.DB, Broker: failing, Writer: b.Notifications}
	_, err = sender.Send(b.ctx)
	require.Error(t, err)
	failing.most = 0
	_, err = sender.Send(b.ctx)
	require.Error(t, err)
	waiting, err := b.q.NextNotifications(b.ctx, 100)
	require.NoError(t, err)
	all := b.sent()
	require.Equal(t, []string{"instance.create.start", "instance.update", "instance.create.end", "instance.update"}, events(all))
	for i, n := range all {
		require.Equal(t, waiting[i].ID, n.MessageID)
	}
	created := unpack(t, failing.got[0].Body)
	require.Equal(t, "instance.update", created.Event)
	require.NotEqual(t, created.MessageID, all[1].MessageID)
	require.Equal(t, map[string]any{"old_state": "building", "state": "building", "old_task_state": "scheduling", "new_task_state": "scheduling"},
		nested(t, created.Payload.Data, "state_update"), "of a server that is new")
	require.Equal(t, []any{"building", "pending", "vm"}, []any{created.Payload.Data["state"], created.Payload.Data["power_state"], created.Payload.Data["display_name"]})
	require.Equal(t, []any{"active", "running", "vm"}, []any{all[1].Payload.Data["state"], all[1].Payload.Data["power_state"], all[1].Payload.Data["display_name"]})
	require.Equal(t, string(in.Operation), all[1].Payload.Data["request_id"], "that has left the server by then")
	require.Equal(t, []any{"other", nil}, []any{all[3].Payload.Data["display_name"], all[3].Payload.Data["request_id"]})
}

// SH-24: a change of a server whose row is gone by the time it is sent keeps nothing else waiting.
func TestSH24AnUpdateOfNoServerIsDropped(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tell(notification.VMStateChange)
	b.Exec(`INSERT INTO notifications (id, event_type, priority, server_id, change) VALUES (gen_random_uuid(), 'instance.update', 'INFO', gen_random_uuid(), '{}')`)
	in := b.server(compute.OpCreate)
	require.Equal(t, in.Server.String(), b.sentUpdate().Payload.Data["uuid"])
}
