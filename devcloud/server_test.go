package devcloud_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	imagelocal "strongroom/activities/image/local"
	"strongroom/devcloud"
)

// bench is a running server with its files, passwords and log.
type bench struct {
	*devcloud.Server
	cfg       devcloud.Config
	passwords map[string]string
	images    image.Library
	log       *journal
	clock     *clock
	stop      func()
}

// firstUsers makes the users of a first start, once.
var firstUsers = sync.OnceValues(func() ([]byte, map[string]string) {
	dir, err := os.MkdirTemp("", "devcloud-test-")
	must(err)
	defer func() { _ = os.RemoveAll(dir) }()
	var passwords map[string]string
	path := filepath.Join(dir, "users.yaml")
	must(devcloud.EnsureUsers(path, func(p map[string]string) error { passwords = p; return nil }))
	text, err := os.ReadFile(path)
	must(err)
	return text, passwords
})

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func setup(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{log: &journal{}, clock: &clock{}}
	users := filepath.Join(dir, "users.yaml")
	text, passwords := firstUsers()
	b.passwords = passwords
	require.NoError(t, os.WriteFile(users, text, 0o600))
	images, err := imagelocal.Open(imagelocal.Config{Dir: filepath.Join(dir, "images")})
	require.NoError(t, err)
	b.images = images
	b.cfg = devcloud.Config{
		Listen: "127.0.0.1:0", UsersFile: users, TokenKeyFile: filepath.Join(dir, "token.key"), Images: images,
		Endpoints: map[string]string{"compute": "http://127.0.0.1:8774/v2.1", "volumev3": "http://127.0.0.1:8774/v3/$(project_id)s"},
		Logger:    slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Now: b.clock.now,
	}
	b.start(t)
	t.Cleanup(func() { b.stop() })
	return b
}

// start serves on the address of the first start.
func (b *bench) start(t *testing.T) {
	t.Helper()
	server, err := devcloud.New(b.cfg)
	require.NoError(t, err)
	b.Server = server
	b.cfg.Listen = strings.TrimSuffix(strings.TrimPrefix(server.AuthURL(), "http://"), "/identity/v3")
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	b.stop = func() {
		cancel()
		require.NoError(t, <-served)
		b.stop = func() {}
	}
}

// login gives a client of a user in a project ("" for none).
func (b *bench) login(t *testing.T, user, project string) *gophercloud.ProviderClient {
	t.Helper()
	client, err := b.tryLogin(t, user, b.passwords[user], project)
	require.NoError(t, err)
	return client
}

func (b *bench) tryLogin(t *testing.T, user, password, project string) (*gophercloud.ProviderClient, error) {
	t.Helper()
	options := gophercloud.AuthOptions{IdentityEndpoint: b.AuthURL(), Username: user, Password: password, DomainName: "Default"}
	if project != "" {
		options.Scope = &gophercloud.AuthScope{ProjectName: project, DomainName: "Default"}
	}
	return openstack.AuthenticatedClient(t.Context(), options)
}

// answer is what came back of a plain request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) json(t *testing.T) map[string]any {
	t.Helper()
	var out map[string]any
	require.NoError(t, json.Unmarshal(a.body, &out), "%s", a.body)
	return out
}

// send makes a plain request; header are keys and values in turn.
func (b *bench) send(t *testing.T, method, url, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	for n := 0; n < len(header); n += 2 {
		req.Header.Set(header[n], header[n+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{resp.StatusCode, resp.Header, data}
}

// clock is the present, and what a test adds to it.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// journal is a log in memory.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func TestOnlyLoopbackIsListenedOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "nonsense"} {
		cfg := b.cfg
		cfg.Listen = address
		_, err := devcloud.New(cfg)
		require.Error(t, err, address)
	}
	for _, address := range []string{"127.0.0.1:0", "127.0.0.2:0", "localhost:0"} {
		cfg := b.cfg
		cfg.Listen = address
		server, err := devcloud.New(cfg)
		require.NoError(t, err, address)
		_ = server.Close()
	}
}

func TestFirstUsers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "users.yaml")
	require.ErrorIs(t, devcloud.EnsureUsers(path, func(map[string]string) error { return io.ErrClosedPipe }), io.ErrClosedPipe)
	require.NoFileExists(t, path, "passwords that nobody got must not be set")

	var given map[string]string
	require.NoError(t, devcloud.EnsureUsers(path, func(p map[string]string) error { given = p; return nil }))
	require.Len(t, given, 5)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for user, password := range given {
		require.Len(t, password, 24)
		require.Contains(t, string(text), user)
		require.NotContains(t, string(text), password)
	}
	require.NoError(t, devcloud.EnsureUsers(path, func(map[string]string) error { t.Error("asked again"); return nil }))
}

func TestFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	users, err := os.ReadFile(b.cfg.UsersFile)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		text string
		mode os.FileMode
		says string
	}{
		"open to others":     {string(users), 0o644, "open to others"},
		"an unknown key":     {"surprise: 1\n" + string(users), 0o600, "surprise"},
		"a clear password":   {"projects: []\nusers: [{id: a, name: a, password_hash: clear}]", 0o600, "bcrypt"},
		"an unknown project": {strings.Replace(string(users), "name: alt", "name: other", 1), 0o600, "no project"},
		"two of one name":    {"projects: [{id: a, name: x}, {id: b, name: x}]\nusers: []", 0o600, "the only ones"},
	} {
		cfg := b.cfg
		cfg.UsersFile = filepath.Join(t.TempDir(), "users.yaml")
		require.NoError(t, os.WriteFile(cfg.UsersFile, []byte(tc.text), tc.mode))
		_, err := devcloud.New(cfg)
		require.ErrorContains(t, err, tc.says, name)
		require.NotContains(t, err.Error(), "clear\"", name)
	}
	cfg := b.cfg
	cfg.TokenKeyFile = filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(cfg.TokenKeyFile, []byte("short"), 0o600))
	_, err = devcloud.New(cfg)
	require.ErrorContains(t, err, "32 bytes")
}

func TestRequestsThatAreNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tokens := b.AuthURL() + "/auth/tokens"
	require.Equal(t, http.StatusBadRequest, b.send(t, "POST", tokens, "{").status)
	require.Equal(t, http.StatusRequestEntityTooLarge, b.send(t, "POST", tokens, strings.Repeat("x", 2<<20)).status)
	require.Equal(t, http.StatusNotFound, b.send(t, "GET", b.AuthURL()+".9/projects", "").status)
	require.Equal(t, http.StatusMethodNotAllowed, b.send(t, "PUT", strings.TrimSuffix(b.AuthURL(), "/v3"), "").status)

	got := b.send(t, "GET", b.AuthURL()+"/projects", "", "X-Auth-Token", "forged.token")
	require.Equal(t, http.StatusUnauthorized, got.status)
	require.Contains(t, got.header.Get("WWW-Authenticate"), "Keystone uri=")
	require.Equal(t, map[string]any{"error": map[string]any{
		"code": 401.0, "title": "Unauthorized", "message": "The request you have made requires authentication.",
	}}, got.json(t))
	got = b.send(t, "GET", b.ImageURL()+"/v2/images", "")
	require.Equal(t, http.StatusUnauthorized, got.status)
	require.Equal(t, "401 Unauthorized", got.json(t)["code"])
}
