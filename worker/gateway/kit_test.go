package gateway_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/image"
	imagelocal "strongroom/activities/image/local"
	"strongroom/activities/key"
	keylocal "strongroom/activities/key/local"
	"strongroom/activities/object"
	objectlocal "strongroom/activities/object/local"
	"strongroom/compute"
	"strongroom/schema/schematest"
	"strongroom/schema/seal"
	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

// requestTime is how long a request may take to be read, and its answer to be written,
// unless it is an image.
const requestTime = 2 * time.Second

// cloud is a gateway with a real database, key manager and image store behind it.
type cloud struct {
	*schematest.Fixture
	t         testing.TB
	keys      key.Manager
	images    image.Library
	objects   object.Blobs
	authority *pki.Authority
	endorser  *pki.Endorser // nil: none
	box       *seal.Box
	url       string
	log       logged
	again     time.Duration // after which streams look again; 0: as the process does
	fresh     time.Duration // of the list of revoked certificates; 0: as the process has it
}

// logged is what was logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take gives the lines with a text that were logged since the last call.
func (l *logged) take(text string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	l.text.Reset()
	return lines
}

// refusal requires that one refusal was logged since the last look at the log: whose request it
// was, and why it was refused.
func (h *host) refusal(request, why string) {
	h.t.Helper()
	lines := h.log.take("level=WARN msg=refused ")
	require.Len(h.t, lines, 1)
	require.Contains(h.t, lines[0], "peer="+string(pki.HostName(h.id))+" address=127.0.0.1:")
	require.Contains(h.t, lines[0], fmt.Sprintf("request=%q error=", request))
	require.Contains(h.t, lines[0], why)
}

func newCloud(t testing.TB) *cloud {
	t.Helper()
	dir := t.TempDir()
	images, err := imagelocal.Open(imagelocal.Config{Dir: dir})
	require.NoError(t, err)
	return newCloudWith(t, images)
}

func newCloudWith(t testing.TB, images image.Library) *cloud {
	t.Helper()
	dir := t.TempDir()
	c := &cloud{Fixture: schematest.NewFixture(t), t: t, images: images}
	master := filepath.Join(dir, "master.key")
	objects, err := objectlocal.Open(filepath.Join(dir, "objects"))
	require.NoError(t, err)
	c.objects = objects.Blobs
	c.keys, err = keylocal.Open(filepath.Join(dir, "keys"), master)
	require.NoError(t, err)
	c.box, err = seal.Parse([]byte(seal.NewKey()))
	require.NoError(t, err)
	c.authority, err = pki.Ensure(filepath.Join(dir, "ca"))
	require.NoError(t, err)
	own, err := c.authority.Process(pki.Gateway)
	require.NoError(t, err)
	c.url = c.serve(own)
	return c
}

func (c *cloud) serve(own *pki.Identity) (url string) {
	c.t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", own.Server())
	require.NoError(c.t, err)
	logger := slog.New(slog.NewTextHandler(io.MultiWriter(c.t.Output(), &c.log), nil))
	server := &http.Server{
		Handler:           (&gateway.Server{Pool: c.DB, Authority: c.authority, Keys: c.keys, Seal: c.box, Images: c.images, Objects: c.objects, Shares: exports{}, Endorser: c.endorser, Logger: logger, Again: c.again, Fresh: c.fresh}).Handler(),
		ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
		ReadTimeout: requestTime, WriteTimeout: requestTime, // as the process has them, and shorter
	}
	go func() { _ = server.Serve(listener) }()
	c.t.Cleanup(func() { require.NoError(c.t, server.Close()) })
	return "https://" + listener.Addr().String()
}

// host is an enrolled host.
type host struct {
	*cloud
	id      compute.HostID
	name    string
	request gateway.EnrollRequest
	keys    pki.Keys
	got     *pki.Enrolled
	client  *gateway.Client
	secrets *gateway.HostKeys
}

func (c *cloud) token(name string) string { return c.tokenFor(name, false) }

func (c *cloud) tokenFor(name string, sameKeys bool) string {
	c.t.Helper()
	token, err := gateway.Offer(c.Ctx, c.DB, c.authority, name, time.Hour, sameKeys)
	require.NoError(c.t, err)
	return token.Text()
}

func (c *cloud) newHost(name string, id compute.HostID) *host {
	c.t.Helper()
	h := &host{cloud: c, id: id, name: name}
	h.newKeys()
	return h
}

func (h *host) newKeys() {
	h.t.Helper()
	keys, err := pki.GenerateKeys()
	require.NoError(h.t, err)
	h.use(keys)
}

func (h *host) use(keys pki.Keys) {
	h.t.Helper()
	public, err := x509.MarshalPKIXPublicKey(keys.Sign.Public())
	require.NoError(h.t, err)
	h.keys, h.request = keys, gateway.EnrollRequest{Host: h.id, PublicKey: public, SealingKey: keys.Seal.PublicKey().Bytes()}
}

func (c *cloud) enrolled(name string) *host {
	c.t.Helper()
	h := c.newHost(name, compute.HostID{UUID: uuid.New()})
	require.NoError(c.t, h.enroll(c.token(name)))
	require.NoError(c.t, h.client.Report(c.Ctx, gateway.HostReport{VCPUs: 8, MemoryMB: 8192, DiskGB: 100, VCPURatio: 1, MemoryRatio: 1, DiskRatio: 1, CPUInfo: []byte("{}")}))
	return h
}

func (h *host) enroll(token string) (err error) {
	if h.got, err = gateway.Enroll(h.Ctx, h.url, token, h.request, h.keys); err != nil {
		return err
	}
	h.client = gateway.Dial(h.url, pki.NewIdentity(h.got.Cert, h.keys.Sign, h.got.CA))
	h.secrets = gateway.NewHostKeys(h.client, h.id, h.keys)
	return nil
}

// server adds a server on the host, with an operation that runs.
func (h *host) server() compute.Operation {
	h.t.Helper()
	op := h.Server(compute.OpStart)
	h.Exec("UPDATE servers SET host_id = $2 WHERE id = $1", op.ServerID, h.id)
	return op
}

// secret makes a key of a server's root disk.
func (c *cloud) secret(server compute.ServerID, cred compute.Credential) compute.SecretID {
	c.t.Helper()
	id := c.stray(cred)
	c.Exec("UPDATE server_disks SET encryption_secret_uuid = $2 WHERE server_id = $1", server, id)
	return id
}

// stray makes a key of no server.
func (c *cloud) stray(cred compute.Credential) compute.SecretID {
	c.t.Helper()
	id := compute.SecretID{UUID: uuid.New()}
	got, err := c.keys.Create(c.Ctx, key.CreateInput{Credential: cred, ID: id, Name: id.String(), Bytes: 64})
	require.NoError(c.t, err)
	return got
}

// image makes one of 3 MB.
func (c *cloud) image(cred compute.Credential) (compute.ImageID, []byte) {
	c.t.Helper()
	img := c.queued(cred)
	data := make([]byte, 3<<20+7)
	_, _ = rand.Read(data)
	require.NoError(c.t, c.images.Upload(c.Ctx, cred, img, bytes.NewReader(data)))
	return img, data
}

func (c *cloud) queued(cred compute.Credential) compute.ImageID {
	c.t.Helper()
	img, err := c.images.Create(c.Ctx, cred, compute.Image{
		ID: compute.ImageID{UUID: uuid.New()}, Name: "image", DiskFormat: "raw", ContainerFormat: "bare", Visibility: image.Private,
	})
	require.NoError(c.t, err)
	return img.ID
}

// as calls do as an activity of the workflow of that id does.
func as(t testing.TB, workflowID string, do func(ctx context.Context) error) error {
	t.Helper()
	var result error
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(10 * time.Minute)
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflowID})
	env.RegisterActivityWithOptions(func(ctx context.Context) error {
		result = do(ctx)
		return nil
	}, activity.RegisterOptions{Name: "do"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Minute})
		return workflow.ExecuteActivity(ctx, "do").Get(ctx, nil)
	})
	require.NoError(t, env.GetWorkflowError())
	return result
}

// read reads a secret for a server.
func (h *host) read(server compute.ServerID, cred compute.Credential, id compute.SecretID) (value string, err error) {
	h.t.Helper()
	err = as(h.t, "server/"+server.String(), func(ctx context.Context) error {
		p, err := h.secrets.Passphrase(ctx, cred, id)
		if err != nil {
			return err
		}
		defer p.Wipe()
		return p.Use(func(b []byte) error {
			value = string(b)
			return nil
		})
	})
	return value, err
}

func (c *cloud) value(cred compute.Credential, id compute.SecretID) (value string) {
	c.t.Helper()
	p, err := c.keys.Passphrase(c.Ctx, cred, id)
	require.NoError(c.t, err)
	defer p.Wipe()
	require.NoError(c.t, p.Use(func(b []byte) error {
		value = string(b)
		return nil
	}))
	return value
}
