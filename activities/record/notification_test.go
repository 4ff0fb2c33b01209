package record_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/notification"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/seal"
)

// told is a notification as a consumer unpacks it.
type told struct {
	MessageID   uuid.UUID `json:"message_id"`
	PublisherID string    `json:"publisher_id"`
	Event       string    `json:"event_type"`
	Priority    string    `json:"priority"`
	Timestamp   string    `json:"timestamp"`
	Unique      string    `json:"_unique_id"`
	Payload     payload   `json:"payload"`
}

type payload struct {
	Name      string         `json:"nova_object.name"`
	Namespace string         `json:"nova_object.namespace"`
	Version   string         `json:"nova_object.version"`
	Data      map[string]any `json:"nova_object.data"`
}

// outbox gives what waits to be sent, in order, and empties it.
func (b *bundle) outbox() (all []told) {
	b.t.Helper()
	rows, err := b.q.NextNotifications(b.ctx, 100)
	require.NoError(b.t, err)
	for _, row := range rows {
		n := unpack(b.t, []byte(*row.Message))
		require.Equal(b.t, row.ID, n.MessageID)
		require.Equal(b.t, row.Priority, n.Priority)
		require.Equal(b.t, row.EventType, n.Event)
		all = append(all, n)
	}
	b.Exec("DELETE FROM notifications")
	return all
}

// unpack opens oslo.messaging's envelope.
func unpack(t *testing.T, body []byte) (n told) {
	t.Helper()
	var envelope map[string]string
	require.NoError(t, json.Unmarshal(body, &envelope))
	require.Equal(t, "2.0", envelope["oslo.version"])
	require.Len(t, envelope, 2)
	require.NoError(t, json.Unmarshal([]byte(envelope["oslo.message"]), &n))
	require.Equal(t, "nova", n.Payload.Namespace)
	require.Regexp(t, `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}$`, n.Timestamp)
	return n
}

func nested(t *testing.T, of map[string]any, key string) map[string]any {
	t.Helper()
	object, ok := of[key].(map[string]any)
	require.True(t, ok, "%s: %v", key, of[key])
	data, ok := object["nova_object.data"].(map[string]any)
	require.True(t, ok, key)
	return data
}

// instanceKeys are those of Nova's InstancePayload 1.9.
var instanceKeys = strings.Fields(`uuid user_id tenant_id reservation_id display_name display_description host_name host node os_type
	architecture availability_zone flavor image_uuid key_name kernel_id ramdisk_id created_at launched_at terminated_at deleted_at
	updated_at state power_state task_state progress ip_addresses block_devices metadata locked locked_reason auto_disk_config
	shares request_id action_initiator_user action_initiator_project fault`)

func (b *bundle) run(in durable.OperationInput, end record.SettleInput) {
	b.t.Helper()
	_, err := b.Begin(b.ctx, in)
	require.NoError(b.t, err)
	end.OperationInput = in
	require.NoError(b.t, b.Settle(b.ctx, end))
}

// SH-24: the start and the end of an operation are told with what the server is at that moment, each
// once, in the transaction that makes it so; nothing is where nobody wants to know.
func TestSH24OperationsAreTold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.run(b.server(compute.OpCreate), record.SettleInput{State: compute.OperationSucceeded, VMState: compute.VMActive})
	require.Empty(t, b.outbox(), "nobody wants to know")

	b.Notifications = &notification.Writer{}
	in := b.server(compute.OpCreate)
	b.run(in, record.SettleInput{State: compute.OperationSucceeded, VMState: compute.VMActive, Power: compute.PowerRunning, Launched: true})
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationSucceeded, VMState: compute.VMActive}), "twice")
	all := b.outbox()
	require.Len(t, all, 2)
	start, end := all[0], all[1]
	require.Equal(t, []string{"instance.create.start", "instance.create.end"}, []string{start.Event, end.Event})
	require.Equal(t, []string{"INFO", "INFO"}, []string{start.Priority, end.Priority})
	require.NotEqual(t, start.MessageID, end.MessageID)
	require.Equal(t, "InstanceCreatePayload", end.Payload.Name)
	require.ElementsMatch(t, append([]string{"keypairs", "tags", "trusted_image_certificates", "instance_name"}, instanceKeys...),
		slices.Collect(maps.Keys(end.Payload.Data)))
	require.Equal(t, []any{"building", "active"}, []any{start.Payload.Data["state"], end.Payload.Data["state"]})
	require.Equal(t, "running", end.Payload.Data["power_state"])
	require.Nil(t, end.Payload.Data["task_state"])
	require.Nil(t, end.Payload.Data["fault"])
	require.NotNil(t, end.Payload.Data["launched_at"])
	require.Equal(t, []any{in.Server.String(), string(in.Operation)}, []any{end.Payload.Data["uuid"], end.Payload.Data["request_id"]})
	require.Equal(t, []any{owner.UserID, owner.ProjectID}, []any{end.Payload.Data["action_initiator_user"], end.Payload.Data["action_initiator_project"]})
	require.Contains(t, nested(t, end.Payload.Data, "flavor"), "extra_specs")

	stop := b.supersede(in, compute.OpStop, struct{}{})
	b.run(stop, record.SettleInput{State: compute.OperationFailed, VMState: compute.VMActive, Message: "the guest hangs"})
	all = b.outbox()
	require.Equal(t, []string{"instance.power_off.start", "instance.power_off.error"}, []string{all[0].Event, all[1].Event})
	require.Equal(t, "ERROR", all[1].Priority)
	require.Equal(t, []string{"InstanceActionPayload", "1.9"}, []string{all[1].Payload.Name, all[1].Payload.Version})
	require.ElementsMatch(t, instanceKeys, slices.Collect(maps.Keys(all[1].Payload.Data)))
	require.Equal(t, "the guest hangs", nested(t, all[1].Payload.Data, "fault")["exception_message"])

	// An operation that never began has no notifications; a delete has them to the end.
	lost := b.supersede(in, compute.OpStart, struct{}{})
	gone := b.supersede(in, compute.OpDelete, struct{}{})
	_, err := b.Begin(b.ctx, lost)
	require.NoError(t, err)
	_, err = b.Begin(b.ctx, gone)
	require.NoError(t, err)
	require.NoError(t, b.FinishDelete(b.ctx, record.FinishDeleteInput{OperationInput: gone}))
	all = b.outbox()
	require.Len(t, all, 2)
	require.Equal(t, []string{"instance.delete.start", "instance.delete.end"}, []string{all[0].Event, all[1].Event})
	require.Equal(t, "deleted", all[1].Payload.Data["state"])
	require.NotNil(t, all[1].Payload.Data["deleted_at"])
}

// TPM-07: where no host was found for a server, its image is told with what it asks of the vTPM, and
// without the id of a secret.
func TestTPM07TheImageOfAServerWithoutAHostIsTold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Notifications = &notification.Writer{}
	in := b.server(compute.OpCreate)
	b.Exec(`UPDATE servers SET image = jsonb_set(image, '{properties}', '{"hw_tpm_version": "2.0", "hw_tpm_model": "tpm-crb", "os_type": "linux",
		"hw_ephemeral_encryption_secret_uuid": "5a", "os_encrypt_key_id": "5b", "owner_specified": "x"}') WHERE id = $1`, in.Server)
	b.run(in, record.SettleInput{State: compute.OperationFailed, VMState: compute.VMError, Message: compute.NoValidHost})
	all := b.outbox()
	require.Len(t, all, 3)
	require.Equal(t, []string{"compute_task.build_instances.error", "instance.create.error"}, []string{all[1].Event, all[2].Event})
	require.Equal(t, []string{"ComputeTaskPayload", "ERROR"}, []string{all[1].Payload.Name, all[1].Priority})
	spec := nested(t, all[1].Payload.Data, "request_spec")
	require.Equal(t, map[string]any{"hw_tpm_version": "2.0", "hw_tpm_model": "tpm-crb", "os_type": "linux"}, nested(t, nested(t, spec, "image"), "properties"))
	require.Equal(t, compute.NoValidHost, nested(t, all[1].Payload.Data, "reason")["exception_message"])
	require.Equal(t, "linux", all[2].Payload.Data["os_type"])
}

// SH-24, decision 14: a share is told when it is attached and detached; the shares of a server only
// where an operator wants it, and where they are exported only where he wants that, too.
func TestSH24SharesAreTold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	box, err := seal.Parse([]byte(strings.Repeat("ab", 32)))
	require.NoError(t, err)
	attachment, shareID := uuid.New(), compute.ShareID{UUID: uuid.New()}
	server := b.server(compute.OpCreate)
	b.run(server, record.SettleInput{State: compute.OperationSucceeded, VMState: compute.VMStopped})
	row := schema.ServerShare{ID: attachment, ServerID: server.Server, ShareID: shareID}
	require.NoError(t, b.Q.AttachShare(b.ctx, schema.AttachShareParams{
		ID: attachment, ServerID: server.Server, ShareID: shareID, Status: compute.ShareAttaching, Tag: "documents", ShareProto: "NFS",
		ExportLocation: box.Seal(row.SealedFor(), []byte("10.0.0.5:/vault")),
	}))
	for _, c := range []struct {
		writer notification.Writer
		shares any
	}{
		{notification.Writer{}, []any{}},
		{notification.Writer{Shares: true}, map[string]any{"share_mapping_uuid": attachment.String(), "share_id": shareID.String(), "tag": "documents"}},
		{notification.Writer{Shares: true, Locations: box}, map[string]any{
			"share_mapping_uuid": attachment.String(), "share_id": shareID.String(), "tag": "documents", "export_location": "10.0.0.5:/vault",
		}},
	} {
		b.Notifications = &c.writer
		b.Exec(`UPDATE server_shares SET status = 'attaching'`)
		in := b.supersede(server, compute.OpShareAttach, compute.ShareArguments{Share: shareID})
		b.run(in, record.SettleInput{
			State: compute.OperationSucceeded, VMState: compute.VMStopped, Shares: []record.ShareChange{{Share: shareID, Event: compute.ShareGranted}},
		})
		all := b.outbox()
		require.Len(t, all, 2)
		for i, status := range []string{"attaching", "inactive"} {
			n := all[i]
			require.Equal(t, []string{"instance.share_attach.start", "instance.share_attach.end"}[i], n.Event)
			require.Equal(t, []string{"InstanceActionSharePayload", "1.1"}, []string{n.Payload.Name, n.Payload.Version})
			require.Equal(t, shareID.String(), n.Payload.Data["share_id"])
			own := []string{"share_id", "share_mapping_uuid", "status", "tag"}
			if c.writer.Locations != nil {
				own = append(own, "export_location")
			}
			require.ElementsMatch(t, append(own, instanceKeys...), slices.Collect(maps.Keys(n.Payload.Data)))
			require.Equal(t, []any{attachment.String(), status, "documents"}, []any{n.Payload.Data["share_mapping_uuid"], n.Payload.Data["status"], n.Payload.Data["tag"]})
			if want, ok := c.shares.(map[string]any); ok {
				want["status"] = status
				list := n.Payload.Data["shares"].([]any)
				require.Len(t, list, 1)
				require.Equal(t, want, list[0].(map[string]any)["nova_object.data"])
			} else {
				require.Equal(t, c.shares, n.Payload.Data["shares"])
			}
		}
	}
	// With another key than the one that sealed it, the location is left out, and the operation goes on.
	other, err := seal.Parse([]byte(strings.Repeat("cd", 32)))
	require.NoError(t, err)
	b.Notifications = &notification.Writer{Shares: true, Locations: other, Logger: slog.New(slog.DiscardHandler)}
	stop := b.supersede(server, compute.OpStop, struct{}{})
	b.run(stop, record.SettleInput{State: compute.OperationSucceeded, VMState: compute.VMStopped})
	for _, n := range b.outbox() {
		require.NotContains(t, n.Payload.Data["shares"].([]any)[0].(map[string]any)["nova_object.data"], "export_location")
	}

	in := b.supersede(server, compute.OpShareDetach, compute.ShareArguments{Share: shareID})
	b.run(in, record.SettleInput{State: compute.OperationFailed, VMState: compute.VMStopped, Message: "Share access could not be taken away"})
	all := b.outbox()
	require.Equal(t, []string{"instance.share_detach.start", "instance.share_detach.error"}, []string{all[0].Event, all[1].Event})

	// Of one that is detached it is told what it was.
	b.Exec(`UPDATE server_shares SET status = 'detaching'`)
	in = b.supersede(server, compute.OpShareDetach, compute.ShareArguments{Share: shareID})
	b.run(in, record.SettleInput{State: compute.OperationSucceeded, VMState: compute.VMStopped, Shares: []record.ShareChange{{Share: shareID, Gone: true}}})
	all = b.outbox()
	require.Equal(t, "instance.share_detach.end", all[1].Event)
	for _, n := range all {
		require.Equal(t, []any{shareID.String(), attachment.String(), "detaching", "documents"},
			[]any{n.Payload.Data["share_id"], n.Payload.Data["share_mapping_uuid"], n.Payload.Data["status"], n.Payload.Data["tag"]})
	}
	require.Empty(t, all[1].Payload.Data["shares"])
}
