package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"strongroom/compute"
	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
	"strongroom/worker/pki"
)

// stolen is what somebody has who copied the certificate of a host, with its key.
type stolen struct {
	*testing.T
	cloud    *testCloud
	host     compute.HostID
	name     pki.Name
	identity *pki.Identity
	temporal client.Client
}

// steal copies the certificate of a host.
func (c *testCloud) steal(t *testing.T, h stack.Host) *stolen {
	t.Helper()
	s := &stolen{T: t, cloud: c, host: c.hostID(t, h)}
	s.name = pki.HostName(s.host)
	var err error
	s.identity, _, err = pki.Folder(c.certificateOf(t, h)).Load()
	require.NoError(t, err)
	s.temporal, err = client.DialContext(t.Context(), client.Options{HostPort: c.TemporalAddress(), ConnectionOptions: client.ConnectionOptions{TLS: s.identity.Temporal()}})
	require.NoError(t, err)
	t.Cleanup(s.temporal.Close)
	return s
}

func (c *testCloud) hostID(t *testing.T, h stack.Host) compute.HostID {
	t.Helper()
	return compute.HostID{UUID: uuid.MustParse(c.hostService(t, h).ID)}
}

// certificateOf is the folder of a host's certificate, as its configuration has it.
func (c *testCloud) certificateOf(t *testing.T, h stack.Host) string {
	t.Helper()
	var cfg struct{ Host struct{ Certificate string } }
	readYAML(t, h.ConfigFile(), &cfg)
	return cfg.Host.Certificate
}

// refusals counts the lines of a part's log that say that something was refused to a host.
func (c *testCloud) refusals(t *testing.T, part string, to pki.Name, says ...string) (n int) {
	t.Helper()
	text, err := os.ReadFile(c.LogFile(part))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		all := (strings.Contains(line, "refused") || strings.Contains(line, "asked for what there is not")) && (strings.Contains(line, `"certificate":"`+string(to)+`"`) || strings.Contains(line, "peer="+string(to)+" "))
		for _, word := range says {
			all = all && strings.Contains(line, word)
		}
		if all {
			n++
		}
	}
	return n
}

// refused does something that is refused, and looks for the line of the log that says so.
func (s *stolen) refused(part string, says []string, do func()) {
	s.Helper()
	count := func() int { return s.cloud.refusals(s.T, part, s.name, says...) }
	before := count()
	do()
	await.For(s, fmt.Sprintf("the log of %s says %v", part, says), func() bool { return count() > before })
}

// atTemporal calls Temporal and is refused.
func (s *stolen) atTemporal(api, queue string, call func(ctx context.Context) error) {
	s.Helper()
	s.refused("temporal", []string{"/" + api + `"`, `"queue":"` + queue + `"`}, func() {
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		var denied *serviceerror.PermissionDenied
		require.ErrorAs(s, call(ctx), &denied, "%s %s", api, queue)
	})
}

// poll waits for a task of a queue.
func (s *stolen) poll(ctx context.Context, queue string) (*workflowservice.PollActivityTaskQueueResponse, error) {
	return s.temporal.WorkflowService().PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{
		Namespace: "default", TaskQueue: &taskqueuepb.TaskQueue{Name: queue}, Identity: "worker",
	})
}

// task takes the next task of a queue.
func (s *stolen) task(queue string) *workflowservice.PollActivityTaskQueueResponse {
	s.Helper()
	for deadline := time.Now().Add(settleTimeout); time.Now().Before(deadline); {
		ctx, cancel := context.WithTimeout(s.Context(), settleTimeout)
		task, err := s.poll(ctx, queue)
		cancel()
		require.NoError(s, err)
		if len(task.GetTaskToken()) > 0 {
			return task
		}
	}
	require.Fail(s, "there is no task", queue)
	return nil
}

// request is one to a gateway, or to the agent of a host.
type request struct {
	to           pki.Name // "": the gateway
	url          string   // "": the gateway's
	method, path string
	header       http.Header
	body         any
}

// ask sends a request with the certificate.
func (s *stolen) ask(in request) (status int, answer []byte) {
	s.Helper()
	if in.to == "" {
		in.to, in.url = pki.Gateway, s.cloud.gatewayURL(s.T)
	}
	text, err := json.Marshal(in.body)
	require.NoError(s, err)
	if in.body == nil {
		text = nil
	}
	r, err := http.NewRequestWithContext(s.Context(), in.method, in.url+in.path, bytes.NewReader(text))
	require.NoError(s, err)
	for name, values := range in.header {
		r.Header[name] = values
	}
	resp, err := pki.HTTPClient(&http.Transport{TLSClientConfig: s.identity.Client(in.to), DisableKeepAlives: true}).Do(r)
	require.NoError(s, err, "%s %s", in.method, in.path)
	defer func() { _ = resp.Body.Close() }()
	answer, err = io.ReadAll(resp.Body)
	require.NoError(s, err)
	return resp.StatusCode, answer
}

// forbidden sends a request that is refused, in words that tell why, and looks for the line of the log.
func (s *stolen) forbidden(part, why string, in request) {
	s.Helper()
	path, _, _ := strings.Cut(in.path, "?")
	s.refused(part, []string{path, why}, func() {
		status, answer := s.ask(in)
		require.Equal(s, http.StatusForbidden, status, "%s %s: %s", in.method, in.path, answer)
		require.Contains(s, string(answer), why)
	})
}

func (c *testCloud) gatewayURL(t *testing.T) string {
	t.Helper()
	var cfg struct{ Host struct{ Gateway string } }
	readYAML(t, c.HostConfigFile(), &cfg)
	return cfg.Host.Gateway
}
