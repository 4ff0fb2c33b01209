package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"strongroom/compute"
	"strongroom/deploy/dev/stack"
	"strongroom/durable"
	"strongroom/worker/pki"
)

// operated is a server with an operation that runs on it.
type operated struct {
	id         string
	credential compute.Credential // of the operation
	disk, vtpm string             // its secrets
}

// operates gives what the record knows of a server on which an operation runs.
func (c *testCloud) operates(t *testing.T, id string) operated {
	t.Helper()
	out := operated{id: id}
	require.NoError(t, c.database(t).QueryRow(t.Context(), `SELECT o.credential_id, o.project_id, o.user_id, d.encryption_secret_uuid,
		(SELECT value FROM server_system_metadata WHERE server_id = s.id AND key = $2)
		FROM servers s JOIN operations o ON o.server_id = s.id AND o.state = 'running' JOIN server_disks d ON d.server_id = s.id AND d.boot_index = 0 WHERE s.id = $1`, id, compute.SystemTPMSecret).
		Scan(&out.credential.ID, &out.credential.ProjectID, &out.credential.UserID, &out.disk, &out.vtpm))
	return out
}

// rows gives a table as one text.
func (c *testCloud) rows(t *testing.T, table string) (text string) {
	t.Helper()
	require.NoError(t, c.database(t).QueryRow(t.Context(), fmt.Sprintf(`SELECT coalesce(string_agg(r::text, E'\n' ORDER BY r::text), '') FROM %s r`, table)).Scan(&text))
	return text
}

// C1, H1: somebody copied the certificate of a host, which is off. He can do what
// that host could, and nothing else: no task of another host's, none of the control plane's, no
// workflow, no passphrase of another host's server, no offer; what he took for himself before is
// good no more once it was done. Each refusal is in a log, and all servers are unharmed.
func TestC1AStolenHostCertificateInACloud(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	mine, theirs := c.Host(1), c.Host(2)
	c.keepsKeys(t, theirs, "all")
	own := c.on(t, mine, func() string { return c.createIdle(t, encryptedTIS) })
	victim := c.on(t, theirs, func() string { return c.createIdle(t, encryptedTIS) })
	thief, other := c.steal(t, mine), c.steal(t, theirs)
	before := c.refusals(t, "temporal", other.name) // of tests before this one, whose hosts answered too late
	thief.getsNoKey(t, other.name, c.agentURL(t, theirs), victim, c.kept(t, theirs, victim))
	for _, id := range []string{own, victim} {
		c.shutOff(t, id)
	}
	thief.readsNothing(t, other.name, c.agentURL(t, theirs), victim)
	// Both hosts are off while both servers are to start: nobody else takes those tasks.
	c.powerOff(t, mine)
	c.powerOff(t, theirs)
	for _, id := range []string{own, victim} {
		require.NoError(t, servers.Start(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	}
	taken, foreign := thief.task(durable.HostQueue(thief.host)), other.task(durable.HostQueue(other.host))

	thief.givesNoOrder(t, other.host, victim)
	thief.answersForNobody(t, foreign)
	thief.readsNoPassphrase(t, c.operates(t, own), c.operates(t, victim))

	replays := thief.answers(taken.GetTaskToken())
	require.NoError(t, replays[0](t.Context()), "it is the thief's own: he may say that he is at work")
	c.powerOn(t, mine)
	c.powerOn(t, theirs)
	for _, id := range []string{own, victim} {
		c.becomes(t, id, "ACTIVE")
	}
	for i, answer := range replays {
		thief.refused("temporal", []string{"/" + answerAPIs[i] + `"`}, func() {
			var gone *serviceerror.NotFound
			require.ErrorAs(t, answer(t.Context()), &gone, answerAPIs[i])
		})
	}
	require.Equal(t, before, c.refusals(t, "temporal", other.name), "what the honest do is not refused")
	for _, id := range []string{own, victim} {
		c.delete(t, id)
	}
	c.nothingIsLeft(t)
}

func (c *testCloud) agentURL(t *testing.T, h stack.Host) (url string) {
	t.Helper()
	require.NoError(t, c.database(t).QueryRow(t.Context(), "SELECT agent_url FROM hosts WHERE name = $1", hostName(t, h)).Scan(&url))
	return url
}

// givesNoOrder tries to take others' tasks, and to begin, change and end operations.
func (s *stolen) givesNoOrder(t *testing.T, other compute.HostID, victim string) {
	t.Helper()
	service := s.temporal.WorkflowService()
	for _, queue := range []string{durable.HostQueue(other), durable.HostBulkQueue(other), durable.ControlQueue, durable.CloudQueue} {
		s.atTemporal("PollActivityTaskQueue", queue, func(ctx context.Context) error {
			_, err := s.poll(ctx, queue)
			return err
		})
	}
	for _, queue := range []string{durable.ControlQueue, durable.HostQueue(other), durable.HostQueue(s.host)} {
		s.atTemporal("PollWorkflowTaskQueue", queue, func(ctx context.Context) error {
			_, err := service.PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{Namespace: "default", TaskQueue: &taskqueuepb.TaskQueue{Name: queue}})
			return err
		})
	}
	server := compute.ServerID{UUID: uuid.MustParse(victim)}
	running := durable.WorkflowID(compute.ServerOwner(server), compute.OpStart)
	s.atTemporal("StartWorkflowExecution", durable.ControlQueue, func(ctx context.Context) error {
		_, err := s.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: durable.WorkflowID(compute.ServerOwner(server), compute.OpDelete), TaskQueue: durable.ControlQueue,
		}, durable.WorkflowType(compute.OpDelete), durable.OperationInput{Operation: "req-" + compute.OperationID(uuid.NewString()), Server: server})
		return err
	})
	s.atTemporal("RequestCancelWorkflowExecution", "", func(ctx context.Context) error { return s.temporal.CancelWorkflow(ctx, running, "") })
	s.atTemporal("TerminateWorkflowExecution", "", func(ctx context.Context) error { return s.temporal.TerminateWorkflow(ctx, running, "", "") })
	s.atTemporal("SignalWorkflowExecution", "", func(ctx context.Context) error { return s.temporal.SignalWorkflow(ctx, running, "", "s", nil) })
	s.atTemporal("GetWorkflowExecutionHistory", "", func(ctx context.Context) error {
		_, err := s.temporal.GetWorkflowHistory(ctx, running, "", false, 0).Next()
		return err
	})
}

// answerAPIs are the ways to answer a task, in the order of answers.
var answerAPIs = []string{"RecordActivityTaskHeartbeat", "RespondActivityTaskCompleted", "RespondActivityTaskFailed", "RespondActivityTaskCanceled"}

// answers are what can be said of a task with its token.
func (s *stolen) answers(token []byte) []func(ctx context.Context) error {
	service := s.temporal.WorkflowService()
	result, err := converter.GetDefaultDataConverter().ToPayloads(struct{}{})
	require.NoError(s, err)
	return []func(ctx context.Context) error{
		func(ctx context.Context) error {
			_, err := service.RecordActivityTaskHeartbeat(ctx, &workflowservice.RecordActivityTaskHeartbeatRequest{Namespace: "default", TaskToken: token})
			return err
		},
		func(ctx context.Context) error {
			_, err := service.RespondActivityTaskCompleted(ctx, &workflowservice.RespondActivityTaskCompletedRequest{Namespace: "default", TaskToken: token, Result: result})
			return err
		},
		func(ctx context.Context) error {
			_, err := service.RespondActivityTaskFailed(ctx, &workflowservice.RespondActivityTaskFailedRequest{Namespace: "default", TaskToken: token})
			return err
		},
		func(ctx context.Context) error {
			_, err := service.RespondActivityTaskCanceled(ctx, &workflowservice.RespondActivityTaskCanceledRequest{Namespace: "default", TaskToken: token})
			return err
		},
	}
}

// answersForNobody tries to answer a task that another host took: with its token, and by its id.
func (s *stolen) answersForNobody(t *testing.T, task *workflowservice.PollActivityTaskQueueResponse) {
	t.Helper()
	for i, answer := range s.answers(task.GetTaskToken()) {
		s.atTemporal(answerAPIs[i], "", answer)
	}
	service := s.temporal.WorkflowService()
	in, id := task.GetWorkflowExecution(), task.GetActivityId()
	named := &commonpb.WorkflowExecution{WorkflowId: in.GetWorkflowId(), RunId: in.GetRunId()}
	for api, call := range map[string]func(ctx context.Context) error{
		"RecordActivityTaskHeartbeatById": func(ctx context.Context) error {
			_, err := service.RecordActivityTaskHeartbeatById(ctx, &workflowservice.RecordActivityTaskHeartbeatByIdRequest{Namespace: "default", WorkflowId: named.WorkflowId, RunId: named.RunId, ActivityId: id})
			return err
		},
		"RespondActivityTaskCompletedById": func(ctx context.Context) error {
			_, err := service.RespondActivityTaskCompletedById(ctx, &workflowservice.RespondActivityTaskCompletedByIdRequest{Namespace: "default", WorkflowId: named.WorkflowId, RunId: named.RunId, ActivityId: id})
			return err
		},
		"RespondActivityTaskFailedById": func(ctx context.Context) error {
			_, err := service.RespondActivityTaskFailedById(ctx, &workflowservice.RespondActivityTaskFailedByIdRequest{Namespace: "default", WorkflowId: named.WorkflowId, RunId: named.RunId, ActivityId: id})
			return err
		},
		"RespondActivityTaskCanceledById": func(ctx context.Context) error {
			_, err := service.RespondActivityTaskCanceledById(ctx, &workflowservice.RespondActivityTaskCanceledByIdRequest{Namespace: "default", WorkflowId: named.WorkflowId, RunId: named.RunId, ActivityId: id})
			return err
		},
	} {
		s.atTemporal(api, "", call)
	}
}

// asks is the body of a request for a secret, or for an object.
func asks(server string, as compute.Credential, more map[string]any) map[string]any {
	body := map[string]any{"server": server, "credential": as}
	for key, value := range more {
		body[key] = value
	}
	return body
}

// readsNothing tries to have what is another host's while nothing runs: its server's disk from
// its agent, and all that the gateway has of it.
func (s *stolen) readsNothing(t *testing.T, other pki.Name, agent, victim string) {
	t.Helper()
	transfer := map[string]any{"server": victim, "operation": "req-" + uuid.NewString(), "kind": compute.ThingDiskFile, "name": victim + "/disk"}
	text, err := json.Marshal(transfer)
	require.NoError(t, err)
	s.forbidden("host2", "", request{to: other, url: agent, method: http.MethodGet, path: "/v1/disk/layout", header: http.Header{"Strongroom-Transfer": {string(text)}}})
	transfer["serial"] = s.identity.Cert().SerialNumber.Text(16)
	s.forbidden("gateway", "that makes disk_file", request{method: http.MethodPost, path: "/v1/transfer", body: transfer})
	s.forbidden("gateway", "is not on host", request{method: http.MethodGet, path: "/v1/servers/" + victim + "/metadata"})
	s.forbidden("gateway", "is not on host", request{method: http.MethodPost, path: "/v1/servers/" + victim + "/progress", body: map[string]any{"percent": 7}})
}

// getsNoKey tries to have the keys of another host's guest, which runs, as if that came to the thief's.
func (s *stolen) getsNoKey(t *testing.T, other pki.Name, agent, victim string, kept []compute.SecretID) {
	t.Helper()
	require.Len(t, kept, 2)
	for _, id := range kept {
		s.forbidden("host2", "", request{to: other, url: agent, method: http.MethodPost, path: "/v1/departure/key", body: map[string]any{
			"server": victim, "operation": "req-" + uuid.NewString(), "secret": id,
		}})
	}
	s.forbidden("gateway", "moves server", request{method: http.MethodPost, path: "/v1/handed/from", body: map[string]any{"server": victim}})
	s.forbidden("gateway", "moves server", request{method: http.MethodPost, path: "/v1/handed", body: map[string]any{
		"server": victim, "operation": "req-" + uuid.NewString(), "serial": s.identity.Cert().SerialNumber.Text(16),
	}})
	s.forbidden("gateway", "", request{method: http.MethodPost, path: "/v1/accepts", body: map[string]any{
		"server": victim, "operation": "req-" + uuid.NewString(), "serial": s.identity.Cert().SerialNumber.Text(16),
	}})
	s.forbidden("host2", "", request{to: other, url: agent, method: http.MethodGet, path: "/kept/" + victim})
}

// readsNoPassphrase tries to read passphrases while operations run on a server of the host and on
// one of another, and to leave something behind with which he could later.
func (s *stolen) readsNoPassphrase(t *testing.T, own, victim operated) {
	t.Helper()
	tables := func() (text string) {
		for _, table := range []string{"ledger", "credentials", "operations"} {
			text += s.cloud.rows(t, table) + "\n"
		}
		return text
	}
	before := tables()
	secret := func(id string) map[string]any { return map[string]any{"secret": id} }
	passphrase := func(body any) request { return request{method: http.MethodPost, path: "/v1/passphrase", body: body} }

	status, answer := s.ask(passphrase(asks(own.id, own.credential, secret(own.disk))))
	require.Equal(t, http.StatusOK, status, "what is the host's own: %s", answer)
	for _, id := range []string{victim.disk, victim.vtpm} {
		s.forbidden("gateway", "is not on host", passphrase(asks(victim.id, victim.credential, secret(id))))
		for _, as := range []compute.Credential{
			own.credential, victim.credential, compute.DeploymentCredential(), compute.MemberCredential(victim.credential.ProjectID),
			compute.DelegatedCredential(compute.ServerID{UUID: uuid.MustParse(victim.id)}, victim.credential.ProjectID, victim.credential.UserID),
		} {
			s.forbidden("gateway", "no operation that runs", passphrase(asks(own.id, as, secret(id))))
		}
	}
	object, err := json.Marshal(asks(victim.id, victim.credential, map[string]any{"blob": "strongroom-" + victim.id + "/tpm"}))
	require.NoError(t, err)
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		s.forbidden("gateway", "", request{method: method, path: "/v1/objects", header: http.Header{"Strongroom-Purpose": {string(object)}}})
	}
	image, err := json.Marshal(asks(victim.id, victim.credential, nil))
	require.NoError(t, err)
	for _, path := range []string{"", "/file"} {
		s.forbidden("gateway", "is not on host", request{method: http.MethodGet, path: "/v1/images/" + s.cloud.idler + path, header: http.Header{"Strongroom-Purpose": {string(image)}}})
	}

	// A row that waits for a credential is what an offer is made of.
	waiting := map[string]any{
		"kind": "key_secret", "place": "key-manager", "name": "x", "state": "waiting", "owner_kind": "host", "owner_id": s.host,
		"project_id": victim.credential.ProjectID, "user_id": victim.credential.UserID, "offered": true, "sealed": "AAAA", "trust_id": "t",
	}
	for _, path := range []string{"/v1/offers", "/v1/ledger", "/v1/credentials", "/v1/operations"} {
		for _, method := range []string{http.MethodPost, http.MethodPut} {
			s.refused("gateway", []string{"asked for what there is not", method + " " + path}, func() {
				status, _ := s.ask(request{method: method, path: path, body: waiting})
				require.Equal(t, http.StatusNotFound, status, path)
			})
		}
	}
	s.forbidden("gateway", "the token is unknown", request{method: http.MethodPost, path: "/v1/enroll", body: map[string]any{
		"host": uuid.NewString(), "token": strings.Repeat("A", 43) + "." + strings.Repeat("A", 43), "public_key": "", "sealing_key": "",
	}})
	require.Equal(t, before, tables(), "no offer, no operation, nothing to remove")
}
