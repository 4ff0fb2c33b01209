package integration_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/notification/rabbitmq/rabbitmqtest"
	"strongroom/deploy/await"
)

// notified is a notification as far as these tests look at it.
type notified struct {
	ID      string `json:"message_id"`
	Event   string `json:"event_type"`
	Payload struct {
		Data map[string]any `json:"nova_object.data"`
	} `json:"payload"`
}

// take takes what waits in the broker's queues about a server, each notification once: the broker
// may be given one again.
func take(t *testing.T, broker *rabbitmqtest.Server, priority string) (all []notified) {
	t.Helper()
	seen := map[string]bool{}
	for _, m := range broker.Take(t, "versioned_notifications."+priority) {
		var envelope map[string]string
		require.NoError(t, json.Unmarshal(m.Body, &envelope))
		var n notified
		require.NoError(t, json.Unmarshal([]byte(envelope["oslo.message"]), &n))
		if !seen[n.ID] {
			all = append(all, n)
		}
		seen[n.ID] = true
	}
	return all
}

// updates gives the changes of a server's vm_state that were told, or of its task_state.
func updates(of []notified, server, old, now string) (changes []string) {
	for _, n := range of {
		if n.Event != "instance.update" || n.Payload.Data["uuid"] != server {
			continue
		}
		update := n.Payload.Data["state_update"].(map[string]any)["nova_object.data"].(map[string]any)
		if update[old] != update[now] {
			changes = append(changes, fmt.Sprintf("%v, %v", update[old], update[now]))
		}
	}
	return changes
}

// SH-24, TPM-07: a consumer on a real RabbitMQ is told of a server's whole life, in order, with its
// shares, also where the control worker dies and the broker is away meanwhile; and of a server
// that no host can take, with what its image asks of a vTPM. Where a share is exported is told to nobody.
func TestSH24AConsumerIsTold(t *testing.T) {
	backends(t, local) // it is about the broker: no cloud service takes part
	broker := rabbitmqtest.New(t)
	broker.Start(t)
	c := ownCloud(t)
	s := c.share(t)
	c.configured(t, "control", "notifications", map[string]any{"url": broker.URL, "password_file": broker.PasswordFile, "include_share_mapping": true, "notify_on_state_change": "vm_and_task_state"})
	id := c.create(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	broker.Stop(t)
	c.turnOff(t, id)
	require.NoError(t, c.attach(t, id, s, "documents"))
	c.kill(t, "control")
	c.hasShare(t, id, s, "inactive")
	c.turnOn(t, id)
	broker.Start(t)

	asking, remove := c.guestAsking(t, map[string]string{"hw_tpm_version": "2.0", "hw_tpm_model": "tpm-crb", "trait:CUSTOM_NOWHERE": "required"})
	defer remove()
	lost := c.createOf(t, encrypted, asking)
	c.becomes(t, lost, "ERROR")
	c.delete(t, lost)
	c.turnOff(t, id)
	require.NoError(t, c.detach(t, id, s))
	c.hasNoShare(t, id, s)
	c.delete(t, id)

	var info, failed []notified
	events := func(of []notified, server string) (events []string) {
		for _, n := range of {
			if n.Event != "instance.update" && slices.Contains([]any{n.Payload.Data["uuid"], n.Payload.Data["instance_uuid"]}, any(server)) {
				events = append(events, n.Event)
			}
		}
		return events
	}
	await.For(t, "the consumer is told that the server is deleted", func() bool {
		info, failed = append(info, take(t, broker, "info")...), append(failed, take(t, broker, "error")...)
		return slices.Contains(events(info, id), "instance.delete.end")
	}, await.Witness{Name: "told", Look: func() string { return strings.Join(events(info, id), " ") }})
	require.Equal(t, []string{
		"instance.create.start", "instance.create.end", "instance.power_off.start", "instance.power_off.end",
		"instance.share_attach.start", "instance.share_attach.end", "instance.power_on.start", "instance.power_on.end",
		"instance.power_off.start", "instance.power_off.end", "instance.share_detach.start", "instance.share_detach.end",
		"instance.delete.start", "instance.delete.end",
	}, slices.Compact(events(info, id)))
	require.Equal(t, []string{"building, active", "active, stopped", "stopped, active", "active, stopped", "stopped, deleted"}, slices.Compact(updates(info, id, "old_state", "state")))
	ends := slices.DeleteFunc(updates(info, id, "old_task_state", "new_task_state"), func(change string) bool { return !strings.HasSuffix(change, ", <nil>") })
	require.Equal(t, []string{"spawning, <nil>", "powering-off, <nil>", "attaching_share, <nil>", "powering-on, <nil>", "powering-off, <nil>", "detaching_share, <nil>", "deleting, <nil>"}, slices.Compact(ends))
	require.Equal(t, []string{"instance.create.start", "instance.delete.start", "instance.delete.end"}, slices.Compact(events(info, lost)))
	require.Equal(t, []string{"compute_task.build_instances.error", "instance.create.error"}, events(failed, lost))
	image := failed[0].Payload.Data["request_spec"].(map[string]any)["nova_object.data"].(map[string]any)["image"].(map[string]any)
	properties := image["nova_object.data"].(map[string]any)["properties"].(map[string]any)["nova_object.data"].(map[string]any)
	require.Equal(t, []any{"2.0", "tpm-crb"}, []any{properties["hw_tpm_version"], properties["hw_tpm_model"]})
	for _, n := range info {
		if n.Event == "instance.power_on.end" {
			require.Len(t, n.Payload.Data["shares"], 1)
		}
		text, err := json.Marshal(n)
		require.NoError(t, err)
		require.NotContains(t, string(text), s.folder)
	}
	c.nothingIsLeft(t)
}
