package temporal_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	deploymentpb "go.temporal.io/api/deployment/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"strongroom/durable"
	"strongroom/worker/pki"
)

// C1: who stole the certificate of a host can do that host's tasks, and nothing else. Each
// attempt is refused and in the log, and the honest worker goes on.
func TestC1AStolenHostCertificate(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	control := b.control()
	a, other := newHost(), newHost()
	b.honestHost(a)
	b.ends(b.begin(control, durable.HostQueue(a), "before"), "before done")
	b.ends(b.begin(control, durable.HostBulkQueue(a), "bulk"), "bulk done")
	b.ends(b.begin(control, durable.HostStateQueue(a), "state"), "state done")

	name := pki.HostName(a)
	thief := b.as(name)
	s, o := thief.WorkflowService(), thief.OperatorService()
	running := b.begin(control, durable.HostQueue(other), "waits")
	execution := &commonpb.WorkflowExecution{WorkflowId: running.GetID(), RunId: running.GetRunID()}

	for _, queue := range []string{
		durable.HostQueue(other), durable.HostBulkQueue(other), durable.HostStateQueue(other), durable.ControlQueue, durable.CloudQueue,
		"/_sys/" + durable.HostQueue(other) + "/1", durable.HostQueue(a) + "/", "",
	} {
		b.refused(name, "PollActivityTaskQueue", queue, func(ctx context.Context) error {
			_, err := s.PollActivityTaskQueue(ctx, poll(queue))
			return err
		})
	}
	for _, change := range []func(*workflowservice.PollActivityTaskQueueRequest){
		func(in *workflowservice.PollActivityTaskQueueRequest) {
			in.TaskQueue.Kind, in.TaskQueue.NormalName = enumspb.TASK_QUEUE_KIND_STICKY, durable.HostQueue(other)
		},
		func(in *workflowservice.PollActivityTaskQueueRequest) {
			in.DeploymentOptions = &deploymentpb.WorkerDeploymentOptions{
				DeploymentName: "strongroom", BuildId: "theirs", WorkerVersioningMode: enumspb.WORKER_VERSIONING_MODE_VERSIONED,
			}
		},
		func(in *workflowservice.PollActivityTaskQueueRequest) { in.Namespace = "temporal-system" },
	} {
		b.refused(name, "PollActivityTaskQueue", durable.HostQueue(a), func(ctx context.Context) error {
			_, err := s.PollActivityTaskQueue(ctx, poll(durable.HostQueue(a), change))
			return err
		})
	}
	for _, queue := range []string{durable.HostQueue(a), durable.ControlQueue} {
		b.refused(name, "PollWorkflowTaskQueue", queue, func(ctx context.Context) error {
			_, err := s.PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{Namespace: namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: queue}})
			return err
		})
	}
	begin := func(ctx context.Context) error {
		_, err := thief.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: durable.ControlQueue}, doWork, work{durable.HostQueue(a), "theirs"})
		return err
	}
	b.refused(name, "StartWorkflowExecution", durable.ControlQueue, begin)
	for api, call := range map[string]func(ctx context.Context) error{
		"SignalWorkflowExecution":        func(ctx context.Context) error { return thief.SignalWorkflow(ctx, running.GetID(), "", "s", nil) },
		"TerminateWorkflowExecution":     func(ctx context.Context) error { return thief.TerminateWorkflow(ctx, running.GetID(), "", "") },
		"RequestCancelWorkflowExecution": func(ctx context.Context) error { return thief.CancelWorkflow(ctx, running.GetID(), "") },
		"ListWorkflowExecutions": func(ctx context.Context) error {
			_, err := thief.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{})
			return err
		},
		"CountWorkflowExecutions": func(ctx context.Context) error {
			_, err := thief.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{})
			return err
		},
		"GetWorkflowExecutionHistory": func(ctx context.Context) error {
			_, err := thief.GetWorkflowHistory(ctx, running.GetID(), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Next()
			return err
		},
		"DescribeWorkflowExecution": func(ctx context.Context) error {
			_, err := thief.DescribeWorkflowExecution(ctx, running.GetID(), "")
			return err
		},
		"QueryWorkflow": func(ctx context.Context) error {
			_, err := thief.QueryWorkflow(ctx, running.GetID(), "", client.QueryTypeStackTrace)
			return err
		},
		"ResetWorkflowExecution": func(ctx context.Context) error {
			_, err := s.ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{Namespace: namespace, WorkflowExecution: execution})
			return err
		},
		"RespondActivityTaskCompletedById": func(ctx context.Context) error {
			_, err := s.RespondActivityTaskCompletedById(ctx, &workflowservice.RespondActivityTaskCompletedByIdRequest{Namespace: namespace, WorkflowId: execution.WorkflowId, RunId: execution.RunId, ActivityId: "5"})
			return err
		},
		"RespondActivityTaskFailedById": func(ctx context.Context) error {
			_, err := s.RespondActivityTaskFailedById(ctx, &workflowservice.RespondActivityTaskFailedByIdRequest{Namespace: namespace, WorkflowId: execution.WorkflowId, RunId: execution.RunId, ActivityId: "5"})
			return err
		},
		"RespondActivityTaskCanceledById": func(ctx context.Context) error {
			_, err := s.RespondActivityTaskCanceledById(ctx, &workflowservice.RespondActivityTaskCanceledByIdRequest{Namespace: namespace, WorkflowId: execution.WorkflowId, RunId: execution.RunId, ActivityId: "5"})
			return err
		},
		"RecordActivityTaskHeartbeatById": func(ctx context.Context) error {
			_, err := s.RecordActivityTaskHeartbeatById(ctx, &workflowservice.RecordActivityTaskHeartbeatByIdRequest{Namespace: namespace, WorkflowId: execution.WorkflowId, RunId: execution.RunId, ActivityId: "5"})
			return err
		},
		"RegisterNamespace": func(ctx context.Context) error {
			_, err := s.RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{Namespace: "theirs", WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)})
			return err
		},
		"UpdateNamespace": func(ctx context.Context) error {
			_, err := s.UpdateNamespace(ctx, &workflowservice.UpdateNamespaceRequest{Namespace: namespace})
			return err
		},
		"ListNamespaces": func(ctx context.Context) error {
			_, err := s.ListNamespaces(ctx, &workflowservice.ListNamespacesRequest{})
			return err
		},
		"DescribeNamespace": func(ctx context.Context) error {
			_, err := s.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: "temporal-system"})
			return err
		},
		"DeleteNamespace": func(ctx context.Context) error {
			_, err := o.DeleteNamespace(ctx, &operatorservice.DeleteNamespaceRequest{Namespace: namespace})
			return err
		},
		"ListSearchAttributes": func(ctx context.Context) error {
			_, err := o.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
			return err
		},
	} {
		b.refused(name, api, "", call)
	}
	b.refused(name, "DescribeTaskQueue", durable.HostQueue(other), func(ctx context.Context) error {
		_, err := thief.DescribeTaskQueue(ctx, durable.HostQueue(other), enumspb.TASK_QUEUE_TYPE_ACTIVITY)
		return err
	})
	b.refused(name, "ShutdownWorker", durable.HostQueue(other), func(ctx context.Context) error {
		_, err := s.ShutdownWorker(ctx, &workflowservice.ShutdownWorkerRequest{Namespace: namespace, TaskQueue: durable.HostQueue(other)})
		return err
	})

	// The other host does its task after all of that, and so does this one.
	b.honestHost(other)
	b.ends(running, "waits done")
	b.ends(b.begin(control, durable.HostQueue(a), "after"), "after done")
	require.Zero(t, b.lines(func(l line) bool {
		return l.Certificate == string(pki.Control) || l.Certificate == string(pki.HostName(other))
	}),
		"what the honest do is not refused")
}

// C1: the token of a task is good for the host that took the task, and once.
func TestC1AStolenTaskToken(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	control := b.control()
	a, other := newHost(), newHost()
	own, theirs := b.as(pki.HostName(a)), b.as(pki.HostName(other))
	result, err := converter.GetDefaultDataConverter().ToPayloads("stolen")
	require.NoError(t, err)
	answers := func(c client.Client, token []byte) map[string]func(ctx context.Context) error {
		s := c.WorkflowService()
		return map[string]func(ctx context.Context) error{
			"RecordActivityTaskHeartbeat": func(ctx context.Context) error {
				_, err := s.RecordActivityTaskHeartbeat(ctx, &workflowservice.RecordActivityTaskHeartbeatRequest{Namespace: namespace, TaskToken: token})
				return err
			},
			"RespondActivityTaskFailed": func(ctx context.Context) error {
				_, err := s.RespondActivityTaskFailed(ctx, &workflowservice.RespondActivityTaskFailedRequest{Namespace: namespace, TaskToken: token})
				return err
			},
			"RespondActivityTaskCanceled": func(ctx context.Context) error {
				_, err := s.RespondActivityTaskCanceled(ctx, &workflowservice.RespondActivityTaskCanceledRequest{Namespace: namespace, TaskToken: token})
				return err
			},
			"RespondActivityTaskCompleted": func(ctx context.Context) error {
				_, err := s.RespondActivityTaskCompleted(ctx, &workflowservice.RespondActivityTaskCompletedRequest{Namespace: namespace, TaskToken: token, Result: result})
				return err
			},
		}
	}

	run := b.begin(control, durable.HostQueue(a), "word")
	token := b.task(own, durable.HostQueue(a)).GetTaskToken()
	const mac = 4 + 32 // as the server appends it
	cut := token[:len(token)-mac]
	changed := append([]byte{}, token...)
	changed[3] ^= 1
	for what, attempt := range map[string]struct {
		name  pki.Name
		as    client.Client
		token []byte
	}{
		"another host's token": {pki.HostName(other), theirs, token}, "one without a MAC": {pki.HostName(a), own, cut},
		"one with another text": {pki.HostName(a), own, changed}, "a MAC alone": {pki.HostName(a), own, token[len(token)-mac:]},
	} {
		for api, answer := range answers(attempt.as, attempt.token) {
			t.Log(what)
			if what == "one with another text" || what == "a MAC alone" { // which Temporal itself may find first
				err := answer(t.Context())
				require.Error(t, err, what)
				continue
			}
			b.refused(attempt.name, api, "", answer)
		}
	}
	require.NoError(t, answers(own, token)["RecordActivityTaskHeartbeat"](t.Context()))
	require.NoError(t, answers(own, token)["RespondActivityTaskCompleted"](t.Context()))
	b.ends(run, "stolen")

	// Its own old token, again.
	for api, answer := range answers(own, token) {
		match := func(l line) bool {
			return l.Certificate == string(pki.HostName(a)) && strings.HasSuffix(l.API, "/"+api) && !strings.Contains(l.Error, "took")
		}
		before := b.lines(match)
		var gone *serviceerror.NotFound
		require.ErrorAs(t, answer(t.Context()), &gone, api)
		require.Equal(t, before+1, b.lines(match), api)
	}

	// A host may renew its certificate while it works.
	run = b.begin(control, durable.HostQueue(a), "word")
	token = b.task(own, durable.HostQueue(a)).GetTaskToken()
	require.NoError(t, answers(b.as(pki.HostName(a)), token)["RespondActivityTaskCompleted"](t.Context()))
	b.ends(run, "stolen")
	// And the server may start again.
	run = b.begin(control, durable.HostQueue(a), "word")
	token = b.task(own, durable.HostQueue(a)).GetTaskToken()
	b.again()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.NoError(c, answers(own, token)["RespondActivityTaskCompleted"](t.Context()))
	}, time.Minute, 100*time.Millisecond)
	b.ends(run, "stolen")
}

// C1: a certificate that was revoked opens nothing from then on, on connections that are
// open, too, and after a start of the server while no gateway answers.
func TestC1ARevokedCertificate(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	control := b.control()
	a := newHost()
	id := b.identity(pki.HostName(a))
	thief, err := b.with(id.Temporal())
	require.NoError(t, err)
	t.Cleanup(thief.Close)
	ask := func(c client.Client) error {
		_, err := c.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
		return err
	}
	require.NoError(t, ask(thief))
	waits := make(chan error, 1)
	go func() { // as workers do, for a minute
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := thief.WorkflowService().PollActivityTaskQueue(ctx, poll(durable.HostQueue(a)))
		waits <- err
	}()
	time.Sleep(500 * time.Millisecond)
	now := time.Now()
	b.list.put(t, b.authority, now, id.Cert().SerialNumber)
	select {
	case err := <-waits:
		var denied *serviceerror.PermissionDenied
		require.ErrorAs(t, err, &denied)
	case <-time.After(20 * time.Second):
		t.Fatal("a revoked host still waits for tasks")
	}
	b.refused(pki.HostName(a), "DescribeNamespace", "", func(context.Context) error { return ask(thief) })
	b.refused(pki.HostName(a), "PollActivityTaskQueue", durable.HostQueue(a), func(ctx context.Context) error {
		_, err := thief.WorkflowService().PollActivityTaskQueue(ctx, poll(durable.HostQueue(a)))
		return err
	})

	// The host that enrolled anew works.
	b.honestHost(a)
	b.ends(b.begin(control, durable.HostQueue(a), "again"), "again done")

	// An older list, and no list, change nothing.
	b.list.put(t, b.authority, now.Add(-time.Hour))
	time.Sleep(500 * time.Millisecond)
	require.Error(t, ask(thief))
	b.list.mu.Lock()
	b.list.list = nil
	b.list.mu.Unlock()
	b.again()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var denied *serviceerror.PermissionDenied
		require.ErrorAs(c, ask(thief), &denied)
	}, time.Minute, 100*time.Millisecond)
}

// C1, and of the low findings the one on strongroom dev: a user of the machine, or another
// one on the network, who has no good certificate gets nothing from any port of the server.
func TestC1WhoHasNoCertificateGetsNothing(t *testing.T) {
	t.Parallel()
	b := besiege(t, withUI)
	foreign, err := pki.Ensure(filepath.Join(t.TempDir(), "ca"))
	require.NoError(t, err)
	theirs, err := foreign.Process(pki.Control)
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	old, err := b.authority.Issue(pki.Control, key.Public(), -time.Second)
	require.NoError(t, err)

	withCert := func(id *pki.Identity) credentials.TransportCredentials {
		cfg := id.Temporal()
		cfg.VerifyConnection = nil // an attacker does not look
		return credentials.NewTLS(cfg)
	}
	none := b.identity(pki.Control).Temporal()
	none.GetClientCertificate = nil
	attackers := map[string]credentials.TransportCredentials{
		"no certificate": credentials.NewTLS(none), "another authority's": withCert(theirs),
		"one that has ended": withCert(pki.NewIdentity(old, key, b.authority.Cert)),
		"the gateway's":      withCert(b.identity(pki.Gateway)), "no name of ours": withCert(b.identity("somebody")),
		"a host that is none": withCert(b.identity("host/1")), "clear text": plain{},
	}
	ports := listening(t, b.PID())
	require.GreaterOrEqual(t, len(ports), 5, "the frontend and the inner services")
	ui := strings.TrimPrefix(b.UI(), "http://")
	for _, address := range ports {
		if address == ui {
			continue
		}
		require.True(t, strings.HasPrefix(address, "127.0.0.1:"), address)
		for who, creds := range attackers {
			require.Error(t, health(t, address, creds), "%s at %s", who, address)
		}
		if address != b.Address() { // nor do strongroom's own processes get into the inner services
			for _, name := range []pki.Name{pki.HostName(newHost()), pki.Control, pki.API, pki.Operator} {
				require.Error(t, health(t, address, withCert(b.identity(name))), "%s at %s", name, address)
			}
		}
	}
	require.NoError(t, health(t, b.Address(), withCert(b.identity(pki.HostName(newHost())))))
	for certificate, why := range map[string]string{"": "no certificate", string(pki.Control): "unknown authority"} {
		require.Positive(t, b.lines(func(l line) bool {
			return l.Certificate == certificate && strings.Contains(l.Error, why) && l.Address != ""
		}), why)
	}
	require.Positive(t, b.lines(func(l line) bool { return l.Certificate == "gateway" && strings.HasSuffix(l.API, "Check") }))
}

// C1: the api starts operations and no more, and the UI reads.
func TestC1TheAPIAndTheUI(t *testing.T) {
	t.Parallel()
	b := besiege(t, withUI)
	control := b.control()
	a := newHost()
	running := b.begin(control, durable.HostQueue(a), "word")
	api := b.as(pki.API)
	run, err := api.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: durable.ControlQueue}, doWork, work{durable.HostQueue(a), "x"})
	require.NoError(t, err)
	require.NoError(t, api.CancelWorkflow(t.Context(), run.GetID(), ""))
	b.refused(pki.API, "PollActivityTaskQueue", durable.CloudQueue, func(ctx context.Context) error {
		_, err := api.WorkflowService().PollActivityTaskQueue(ctx, poll(durable.CloudQueue))
		return err
	})
	for _, c := range []struct {
		name pki.Name
		client.Client
	}{{pki.API, api}, {pki.Control, control}, {pki.UI, b.as(pki.UI)}} {
		if c.name != pki.Control { // strongroom repair ends executions
			b.refused(c.name, "TerminateWorkflowExecution", "", func(ctx context.Context) error {
				return c.TerminateWorkflow(ctx, running.GetID(), "", "")
			})
		}
		b.refused(c.name, "RegisterNamespace", "", func(ctx context.Context) error {
			_, err := c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{Namespace: "theirs"})
			return err
		})
	}
	b.refused(pki.UI, "RequestCancelWorkflowExecution", "", func(ctx context.Context) error {
		return b.as(pki.UI).CancelWorkflow(ctx, running.GetID(), "")
	})
	// The UI of this server has the server's certificate.
	path := b.UI() + "/api/v1/namespaces/" + namespace + "/workflows"
	var listed string
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var status int
		status, listed = fetch(t, http.MethodGet, path, "")
		require.Equal(c, http.StatusOK, status)
		require.Contains(c, listed, running.GetID())
	}, time.Minute, 100*time.Millisecond)
	status, said := fetch(t, http.MethodPost, fmt.Sprintf("%s/%s/terminate", path, running.GetID()), "{}")
	require.GreaterOrEqual(t, status, 400, said)
	b.honestHost(a)
	b.ends(running, "word done")
	// A person with a certificate for it can do that.
	run = b.begin(control, durable.HostQueue(newHost()), "word")
	require.NoError(t, b.as(pki.Operator).TerminateWorkflow(t.Context(), run.GetID(), "", "by hand"))
}

// plain is TLS of no kind.
type plain struct {
	credentials.TransportCredentials
}

func (plain) ClientHandshake(_ context.Context, _ string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, nil, nil
}
func (plain) Info() credentials.ProtocolInfo            { return credentials.ProtocolInfo{} }
func (p plain) Clone() credentials.TransportCredentials { return p }

// health asks what every port of the server answers.
func health(t *testing.T, address string, creds credentials.TransportCredentials) error {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "temporal.api.workflowservice.v1.WorkflowService"})
	return err
}

// listening are the addresses where a process listens.
func listening(t *testing.T, pid int) (out []string) {
	t.Helper()
	sockets := map[string]bool{}
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(folder, e.Name())); err == nil {
			sockets[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	for _, family := range []string{"tcp", "tcp6"} {
		table, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, family))
		require.NoError(t, err)
		for in := bufio.NewScanner(table); in.Scan(); {
			f := strings.Fields(in.Text())
			const listen = "0A"
			if len(f) < 10 || f[3] != listen || !sockets[f[9]] {
				continue
			}
			var ip, port uint32
			_, err := fmt.Sscanf(f[1], "%08X:%04X", &ip, &port)
			require.NoError(t, err, f[1])
			out = append(out, fmt.Sprintf("%d.%d.%d.%d:%d", byte(ip), byte(ip>>8), byte(ip>>16), byte(ip>>24), port))
		}
		require.NoError(t, table.Close())
	}
	return out
}
