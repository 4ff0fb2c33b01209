package temporal_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/deploy/dev/temporal"
	"strongroom/durable"
	"strongroom/worker/pki"
)

// besieged is a Temporal server that asks for certificates, with a gateway's list beside it.
type besieged struct {
	*testing.T
	*temporal.Server
	cfg       temporal.Config
	authority *pki.Authority
	list      revoked
}

const namespace = "default"

func besiege(t *testing.T, change ...func(*temporal.Config)) *besieged {
	t.Helper()
	b := &besieged{T: t, cfg: config(t)}
	b.cfg.Authority, b.cfg.RevokedEvery = filepath.Join(b.cfg.Dir, "ca"), 100*time.Millisecond
	for _, c := range change {
		c(&b.cfg)
	}
	var err error
	b.authority, err = pki.Ensure(b.cfg.Authority)
	require.NoError(t, err)
	b.cfg.Gateway = b.list.serve(t, b.authority)
	b.Server = start(t, b.cfg)
	return b
}

func withUI(c *temporal.Config) { c.Headless = false }

// again starts the server at the same address, after it was killed.
func (b *besieged) again() {
	b.Helper()
	require.NoError(b, b.Kill(b.Context()))
	_, port, err := net.SplitHostPort(b.Address())
	require.NoError(b, err)
	b.cfg.Port, err = strconv.Atoi(port)
	require.NoError(b, err)
	b.Server = start(b.T, b.cfg)
}

// revoked is what a gateway answers.
type revoked struct {
	mu   sync.Mutex
	list []byte
}

func (r *revoked) serve(t *testing.T, a *pki.Authority) (url string) {
	t.Helper()
	own, err := a.Process(pki.Gateway)
	require.NoError(t, err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", own.Server())
	require.NoError(t, err)
	r.put(t, a, time.Now())
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if in.URL.Path != "/v1/revoked" || r.list == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(r.list)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return "https://" + listener.Addr().String()
}

func (r *revoked) put(t *testing.T, a *pki.Authority, at time.Time, serials ...*big.Int) {
	t.Helper()
	var all []pki.Revoked
	for _, s := range serials {
		all = append(all, pki.Revoked{Serial: s, At: at})
	}
	list, err := a.RevocationList(all, at)
	require.NoError(t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = list
}

func newHost() compute.HostID { return compute.HostID{UUID: uuid.New()} }

func (b *besieged) identity(name pki.Name) *pki.Identity {
	b.Helper()
	id, err := b.authority.Process(name)
	require.NoError(b, err)
	return id
}

// as is a client with a certificate of that name.
func (b *besieged) as(name pki.Name) client.Client {
	b.Helper()
	c, err := b.with(b.identity(name).Temporal())
	require.NoError(b, err)
	b.Cleanup(c.Close)
	return c
}

func (b *besieged) with(cfg *tls.Config) (client.Client, error) {
	return client.DialContext(b.Context(), client.Options{
		HostPort: b.Address(), Namespace: namespace, Logger: quiet(), ConnectionOptions: client.ConnectionOptions{TLS: cfg},
	})
}

func quiet() log.Logger { return log.NewStructuredLogger(slog.New(slog.DiscardHandler)) }

// line is one of the server's log.
type line struct {
	Message     string `json:"msg"`
	Certificate string `json:"certificate"`
	API         string `json:"api"`
	Queue       string `json:"queue"`
	Address     string `json:"address"`
	Error       string `json:"error"`
}

func (b *besieged) lines(match func(line) bool) (n int) {
	b.Helper()
	text, err := os.ReadFile(b.LogFile())
	require.NoError(b, err)
	for in := bufio.NewScanner(bytes.NewReader(text)); in.Scan(); {
		var l line
		if json.Unmarshal(in.Bytes(), &l) == nil && l.Message == "refused" && match(l) {
			n++
		}
	}
	return n
}

// refused calls, and looks for the refusal and its one line in the log.
func (b *besieged) refused(name pki.Name, api, queue string, call func(ctx context.Context) error) {
	b.Helper()
	match := func(l line) bool {
		return l.Certificate == string(name) && strings.HasSuffix(l.API, "/"+api) && l.Queue == queue && l.Address != "" && l.Error != ""
	}
	before := b.lines(match)
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	err := call(ctx)
	var denied *serviceerror.PermissionDenied
	require.ErrorAs(b, err, &denied, "%s %s", api, queue)
	require.Equal(b, before+1, b.lines(match), "%s %s in the log", api, queue)
}

// poll waits for a task of a queue.
func poll(queue string, change ...func(*workflowservice.PollActivityTaskQueueRequest)) *workflowservice.PollActivityTaskQueueRequest {
	in := &workflowservice.PollActivityTaskQueueRequest{Namespace: namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: queue}, Identity: "worker"}
	for _, c := range change {
		c(in)
	}
	return in
}

// The world behind the server: a workflow that has work done on a host.
type work struct {
	Queue string
	Word  string
}

func doWork(ctx workflow.Context, in work) (out string, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: in.Queue, StartToCloseTimeout: time.Minute, HeartbeatTimeout: time.Minute})
	return out, workflow.ExecuteActivity(ctx, "work", in.Word).Get(ctx, &out)
}

func (b *besieged) control() client.Client {
	b.Helper()
	c := b.as(pki.Control)
	w := worker.New(c, durable.ControlQueue, worker.Options{})
	w.RegisterWorkflow(doWork)
	require.NoError(b, w.Start())
	b.Cleanup(w.Stop)
	return c
}

func (b *besieged) honestHost(id compute.HostID) {
	b.Helper()
	c := b.as(pki.HostName(id))
	for _, queue := range []string{durable.HostQueue(id), durable.HostBulkQueue(id), durable.HostStateQueue(id)} {
		w := worker.New(c, queue, worker.Options{DisableWorkflowWorker: true})
		w.RegisterActivityWithOptions(func(ctx context.Context, word string) (string, error) {
			for range 3 {
				activity.RecordHeartbeat(ctx, "at work")
				time.Sleep(20 * time.Millisecond)
			}
			return word + " done", ctx.Err()
		}, activity.RegisterOptions{Name: "work"})
		require.NoError(b, w.Start())
		b.Cleanup(w.Stop)
	}
}

func (b *besieged) begin(c client.Client, queue, word string) client.WorkflowRun {
	b.Helper()
	run, err := c.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{TaskQueue: durable.ControlQueue}, doWork, work{queue, word})
	require.NoError(b, err)
	return run
}

func (b *besieged) ends(run client.WorkflowRun, with string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	var got string
	require.NoError(b, run.Get(ctx, &got))
	require.Equal(b, with, got)
}

func (b *besieged) task(c client.Client, queue string) *workflowservice.PollActivityTaskQueueResponse {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	task, err := c.WorkflowService().PollActivityTaskQueue(ctx, poll(queue))
	require.NoError(b, err)
	require.NotEmpty(b, task.GetTaskToken())
	return task
}

func fetch(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}
