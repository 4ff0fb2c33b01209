package api_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
	"strongroom/schema/schematest"
	"strongroom/schema/seal"
)

// A who is a token of the tests' identity service.
type who string

const (
	admin     who = "token-of-admin"
	member    who = "token-of-member"
	reader    who = "token-of-reader"
	stranger  who = "token-of-stranger"  // a member of another project
	unscoped  who = "token-of-unscoped"  // an admin without a project
	creator   who = "token-of-creator"   // a member who may keep keys
	powerful  who = "token-of-powerful"  // a creator who is an administrator, too
	balancing who = "token-of-balancing" // a creator with a role of another service
	scripted  who = "token-of-scripted"  // a member's application credential
	powerless who = "token-of-powerless" // of the project, with no role that means anything
	observer  who = "token-of-observer"  // a reader of another project
	operator  who = "token-of-operator"  // an admin in another project: one of the whole cloud
	manager   who = "token-of-manager"   // who leads the project, and not the cloud
	nobody    who = ""
)

const (
	project   = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
	elsewhere = "ffffffffffffffffffffffffffffffff"
)

// identity is an identity service that validates tokens, and can be made to fail.
type identity struct {
	server *httptest.Server

	mu    sync.Mutex
	down  bool
	asked int
}

func newIdentity(t *testing.T) *identity {
	t.Helper()
	i := &identity{}
	i.server = httptest.NewServer(i)
	t.Cleanup(i.server.Close)
	return i
}

func (i *identity) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked++
	if i.down {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	if id, ok := strings.CutPrefix(r.URL.Path, "/v3/projects/"); ok && id != project && id != elsewhere {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if r.URL.Path != "/v3/auth/tokens" || r.Header.Get("X-Auth-Token") != "token-of-the-service" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	subject := r.Header.Get("X-Subject-Token")
	token := map[string]any{"expires_at": time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z"), "catalog": []any{
		map[string]any{"type": "image", "name": "glance", "id": "image", "endpoints": []any{
			map[string]any{"id": "image", "interface": "public", "region": "R", "region_id": "R", "url": "http://image.example"},
		}},
	}}
	scope := func(project, user string, roles ...string) {
		named := []any{}
		for _, role := range roles {
			named = append(named, map[string]any{"id": "id-of-" + role, "name": role})
		}
		token["roles"] = named
		token["user"] = map[string]any{"id": user, "name": user, "domain": map[string]any{"id": "default", "name": "Default"}}
		if project != "" {
			token["project"] = map[string]any{"id": project, "name": project, "domain": map[string]any{"id": "default", "name": "Default"}}
		}
	}
	switch who(subject) {
	case admin:
		scope(project, "user-admin", "admin")
	case member:
		scope(project, "user-member", "member")
	case reader:
		scope(project, "user-reader", "reader")
	case stranger:
		scope(elsewhere, "user-stranger", "member")
	case observer:
		scope(elsewhere, "user-observer", "reader")
	case operator:
		scope(elsewhere, "user-operator", "admin")
	case manager:
		scope(project, "user-manager", "manager", "member", "reader")
	case powerless:
		scope(project, "user-powerless", "visitor")
	case creator:
		scope(project, "user-creator", "member", "creator")
	case powerful:
		scope(project, "user-powerful", "admin", "creator", "member", "reader")
	case balancing:
		scope(project, "user-balancing", "creator", "load-balancer_member", "member", "reader")
	case scripted:
		scope(project, "user-member", "member")
		token["application_credential"] = map[string]any{"id": "app-1", "name": "script"}
	case unscoped:
		scope("", "user-admin", "admin")
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":{"code":404,"message":"Could not recognize token `+subject+`"}}`)
		return
	}
	w.Header().Set("X-Subject-Token", subject)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token})
}

func (i *identity) set(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

func (i *identity) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

// bundle is an API on a database of its own.
type bundle struct {
	api      *api.API
	pool     *pgxpool.Pool
	identity *identity
	log      *logBuffer
	keys     checker // the key manager
	objects  checker // the object store
	seal     *seal.Box

	mu  sync.Mutex
	now time.Time
}

// checker is a service that lets everybody use it unless a test says otherwise.
type checker struct {
	answer error
	asked  []compute.Credential

	unread error              // why secrets cannot be read
	looked []compute.SecretID // those that somebody tried to read
}

func (c *checker) Look(_ context.Context, _ compute.Credential, id compute.SecretID) error {
	c.looked = append(c.looked, id)
	return c.unread
}

func (c *checker) Has(_ context.Context, cred compute.Credential, _ compute.StoredTPM) error {
	c.asked = append(c.asked, cred)
	return c.answer
}

func (c *checker) Check(_ context.Context, cred compute.Credential) error {
	c.asked = append(c.asked, cred)
	return c.answer
}

type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// clock is the API's clock in tests.
func (b *bundle) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bundle) advance(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

// setup gives an API; change may alter its configuration first.
func setup(t *testing.T, change ...func(*api.Config)) *bundle {
	t.Helper()
	b := &bundle{identity: newIdentity(t), pool: schematest.New(t), log: &logBuffer{}, now: time.Now()}
	var err error
	b.seal, err = seal.Parse([]byte(seal.NewKey()))
	require.NoError(t, err)
	config := api.Config{
		Pool: b.pool, Logger: slog.New(slog.NewJSONHandler(b.log, nil)), Now: b.clock,
		Identity: &gophercloud.ServiceClient{
			ProviderClient: &gophercloud.ProviderClient{TokenID: "token-of-the-service"},
			Endpoint:       b.identity.server.URL + "/v3/",
		},
		IdentityURI: "http://identity.example:5000/v3",
		Keys:        &b.keys, Objects: &b.objects, Seal: b.seal, Shares: fileServer{},
		Consoles: api.Consoles{URL: "https://consoles.example"},
	}
	for _, c := range change {
		c(&config)
	}
	b.api, err = api.New(config)
	require.NoError(t, err)
	return b
}

// answer is what the API said.
type answer struct {
	t      *testing.T
	code   int
	header http.Header
	body   string
	parsed func() (any, error) // the body, which is read once
}

// A tweak changes a request before it is sent.
type tweak func(*http.Request)

// at asks for a microversion.
func at(version string) tweak {
	return func(r *http.Request) { r.Header.Set("OpenStack-API-Version", "compute "+version) }
}

func header(name, value string) tweak {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// do sends a request. Paths that begin with a slash are below /v2.1.
func (b *bundle) do(t *testing.T, as who, method, path, body string, tweaks ...tweak) answer {
	t.Helper()
	return b.raw(t, as, method, "/v2.1"+path, body, tweaks...)
}

// raw is do for a whole path.
func (b *bundle) raw(t *testing.T, as who, method, path, body string, tweaks ...tweak) answer {
	t.Helper()
	r := httptest.NewRequest(method, "http://cloud.example:8774"+path, strings.NewReader(body))
	if as != nobody {
		r.Header.Set("X-Auth-Token", string(as))
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, tweak := range tweaks {
		tweak(r)
	}
	w := httptest.NewRecorder()
	b.api.ServeHTTP(w, r)
	assert.NoError(t, b.check(as, r, body, w), "%s %s", method, path)
	return answer{t: t, code: w.Code, header: w.Header(), body: w.Body.String(), parsed: sync.OnceValues(func() (node any, err error) {
		err = json.Unmarshal(w.Body.Bytes(), &node)
		return node, err
	})}
}

// is checks status and body.
func (a answer) is(code int, body string) answer {
	a.t.Helper()
	require.Equal(a.t, code, a.code, a.body)
	if body == "" {
		require.Empty(a.t, a.body)
	} else {
		require.JSONEq(a.t, body, a.body)
	}
	return a
}

// fails checks that the answer is a fault of a status, with its name and text.
func (a answer) fails(code int, name, message string) answer {
	a.t.Helper()
	require.Equal(a.t, code, a.code, a.body)
	var body map[string]struct {
		Code    int
		Message string
	}
	require.NoError(a.t, json.Unmarshal([]byte(a.body), &body), a.body)
	require.Len(a.t, body, 1)
	require.Contains(a.t, body, name)
	require.Equal(a.t, code, body[name].Code)
	require.Equal(a.t, message, body[name].Message)
	return a
}

// get gives a value of the body by a path of keys and indexes.
func (a answer) get(path ...any) any {
	a.t.Helper()
	node, err := a.parsed()
	require.NoError(a.t, err, a.body)
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, ok := node.(map[string]any)
			require.True(a.t, ok, a.body)
			require.Contains(a.t, object, step)
			node = object[step]
		case int:
			list, ok := node.([]any)
			require.True(a.t, ok, a.body)
			require.Greater(a.t, len(list), step)
			node = list[step]
		}
	}
	return node
}

// keys gives the sorted keys of an object of the body.
func (a answer) keys(path ...any) []string {
	a.t.Helper()
	object, ok := a.get(path...).(map[string]any)
	require.True(a.t, ok, a.body)
	keys := []string{}
	for key := range object {
		keys = append(keys, key)
	}
	return keys
}

// ok checks for success with a status.
func (a answer) ok(code int) answer {
	a.t.Helper()
	require.Equal(a.t, code, a.code, a.body)
	return a
}
