package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/schematest"
	"strongroom/worker/agent"
	"strongroom/worker/pki"
)

// tokens are a database with a server on a host.
type tokens struct {
	consoleDatabase
	t      *testing.T
	server compute.ServerID
	host   compute.HostID
}

func setupTokens(t *testing.T) *tokens {
	t.Helper()
	k := &tokens{newConsoleDatabase(schematest.New(t), "", slog.New(slog.DiscardHandler)), t, compute.ServerID{UUID: uuid.New()}, compute.HostID{UUID: uuid.New()}}
	k.exec(`INSERT INTO hosts (id, name, agent_url, vcpus, memory_mb, disk_gb, last_seen) VALUES ($1, 'node-1', 'https://agent', 8, 8192, 100, now())`, k.host)
	require.NoError(t, schema.New(k.pool).InsertServer(t.Context(), schema.InsertServerParams{
		ID: k.server, ProjectID: "p", UserID: "u", Name: "vm", Hostname: "vm", ReservationID: "r", VMState: compute.VMActive,
		RequiredTraits: []string{}, ForbiddenTraits: []string{}, Networks: []compute.Network{}, Metadata: map[string]string{}, Tags: []string{}, DiskConfig: "MANUAL",
	}))
	k.exec(`UPDATE servers SET host_id = $1 WHERE id = $2`, k.host, k.server)
	return k
}

func (k *tokens) exec(sql string, args ...any) {
	k.t.Helper()
	_, err := k.pool.Exec(k.t.Context(), sql, args...)
	require.NoError(k.t, err)
}

func (k *tokens) give(token string) string {
	k.t.Helper()
	require.NoError(k.t, schema.New(k.pool).InsertConsoleToken(k.t.Context(), schema.InsertConsoleTokenParams{
		Hash: compute.ConsoleTokenHash(token), ServerID: k.server, HostID: k.host, Type: compute.ConsoleSerial, Seconds: 600,
	}))
	return token
}

func (k *tokens) left() (n int) {
	k.t.Helper()
	require.NoError(k.t, k.pool.QueryRow(k.t.Context(), `SELECT count(*) FROM console_tokens`).Scan(&n))
	return n
}

// Of any number who have a token at once one opens the console.
func TestAConsoleTokenIsGoodOnce(t *testing.T) {
	t.Parallel()
	k := setupTokens(t)
	token := k.give("one")
	var good atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			got, err := k.use(context.Background(), token)
			if err == nil {
				good.Add(1)
				require.Equal(t, []any{k.server, compute.ConsoleSerial, compute.Agent{Host: k.host, Name: "node-1", URL: "https://agent"}},
					[]any{got.Server, got.Type, got.Host})
				return
			}
			require.Equal(t, compute.NotFound, compute.KindOf(err))
		})
	}
	all.Wait()
	require.Equal(t, int32(1), good.Load())
	require.Zero(t, k.left())
	_, err := k.use(t.Context(), "never given")
	require.Equal(t, compute.NotFound, compute.KindOf(err))
}

// A token opens nothing when its time is over, or its server has moved, is on no host, or was deleted. It goes all the same.
func TestAConsoleTokenEnds(t *testing.T) {
	t.Parallel()
	k := setupTokens(t)
	other := uuid.New()
	k.exec(`INSERT INTO hosts (id, name, agent_url, vcpus, memory_mb, disk_gb, last_seen) VALUES ($1, 'node-2', 'https://other', 8, 8192, 100, now())`, other)
	for _, sql := range []string{
		`UPDATE console_tokens SET expires_at = now()`, `UPDATE servers SET host_id = (SELECT id FROM hosts WHERE name = 'node-2')`,
		`UPDATE servers SET host_id = NULL`, `UPDATE servers SET deleted_at = now()`,
	} {
		token := k.give(sql)
		k.exec(sql)
		_, err := k.use(t.Context(), token)
		require.Equal(t, compute.NotFound, compute.KindOf(err), sql)
		require.Zero(t, k.left(), sql)
		k.exec(`UPDATE servers SET host_id = $1, deleted_at = NULL`, k.host)
	}
}

// atHost puts an agent to the server's host, whose consoles say what is typed there, and a file with a certificate of the console
// proxy.
func (k *tokens) atHost() {
	k.t.Helper()
	ca, err := pki.Ensure(filepath.Join(k.t.TempDir(), "ca"))
	require.NoError(k.t, err)
	host, err := ca.Process(pki.HostName(k.host))
	require.NoError(k.t, err)
	server := httptest.NewUnstartedServer(agent.Server{Logger: slog.New(slog.DiscardHandler), Consoles: &agent.Consoles{
		Open: func(context.Context, compute.ServerID, compute.ConsoleType) (net.Conn, error) {
			qemu, line := net.Pipe()
			go func() { _, _ = io.Copy(qemu, qemu) }()
			return line, nil
		},
	}}.Handler())
	server.Listener = tls.NewListener(server.Listener, host.Server())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	server.Start()
	k.t.Cleanup(server.Close)
	k.exec(`UPDATE hosts SET agent_url = $1`, "https://"+server.Listener.Addr().String())
	k.exec(`INSERT INTO host_certificates (serial, host_id, host_name, sealing_key, not_after) VALUES ($1, $2, 'node-1', '', $3)`,
		host.Cert().SerialNumber.Text(16), k.host, host.Cert().NotAfter)
	k.file = filepath.Join(k.t.TempDir(), "console-proxy.pem")
	k.certify(ca, pki.ConsoleProxy)
}

func (k *tokens) certify(ca *pki.Authority, name pki.Name) {
	k.t.Helper()
	var text bytes.Buffer
	require.NoError(k.t, issue(&text, ca, name, time.Hour))
	require.NoError(k.t, os.WriteFile(k.file, text.Bytes(), 0o600))
}

// The proxy takes tokens and opens consoles with a role of the database that reads what it needs and removes tokens, and with a
// certificate of its own: it has neither the authority's key nor what else is in the database.
func TestTheConsoleProxyNeedsLittle(t *testing.T) {
	t.Parallel()
	k := setupTokens(t)
	k.atHost()
	all := k.pool
	limited, role := schematest.AsRole(t, all)
	k.pool = limited
	_, err := k.use(t.Context(), "any")
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "it was granted nothing yet")
	_, err = all.Exec(t.Context(), "GRANT ALL ON ALL TABLES IN SCHEMA public TO "+role) // as somebody did before
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, schema.GrantConsoleProxy(t.Context(), all, role))
	}
	require.NoError(t, schema.CheckVersion(t.Context(), limited), "with which it starts")

	k.pool = all
	token := k.give("one")
	k.pool = limited
	of, err := k.use(t.Context(), token)
	require.NoError(t, err)
	line, err := k.open(t.Context(), of)
	require.NoError(t, err)
	t.Cleanup(func() { _ = line.Close() })
	_, err = io.WriteString(line, "hello")
	require.NoError(t, err)
	said := make([]byte, 5)
	_, err = io.ReadFull(line, said)
	require.NoError(t, err)
	require.Equal(t, "hello", string(said))
	_, err = k.use(t.Context(), token)
	require.Equal(t, compute.NotFound, compute.KindOf(err), "it was used")
	_, err = all.Exec(t.Context(), `UPDATE host_certificates SET revoked_at = now()`)
	require.NoError(t, err)
	_, err = k.open(t.Context(), of)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)

	schematest.Confined(t, all, limited, "SELECT * FROM schema_compatibility LIMIT 0", "SELECT * FROM console_tokens LIMIT 0", "DELETE FROM console_tokens")
	for _, statement := range []string{
		"SELECT user_data FROM servers", "SELECT project_id FROM servers", "SELECT sealing_key FROM host_certificates",
		"UPDATE servers SET host_id = NULL", "UPDATE hosts SET agent_url = 'https://elsewhere'", "UPDATE host_certificates SET revoked_at = NULL",
		"UPDATE console_tokens SET expires_at = now() + interval '1 year'", "UPDATE console_tokens SET server_id = gen_random_uuid()",
	} {
		schematest.Refused(t, limited, statement)
	}
}

// The proxy's certificate may be replaced while it runs. It works with no other's.
func TestTheConsoleProxysCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	k := setupTokens(t)
	k.atHost()
	of, err := k.use(t.Context(), k.give("one"))
	require.NoError(t, err)
	good, err := os.ReadFile(k.file)
	require.NoError(t, err)
	another, err := pki.Ensure(filepath.Join(t.TempDir(), "ca"))
	require.NoError(t, err)
	k.certify(another, pki.ConsoleProxy)
	_, err = k.open(t.Context(), of)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.NoError(t, os.Remove(k.file))
	_, err = k.open(t.Context(), of)
	require.ErrorContains(t, err, "strongroom authority issue console-proxy")
	k.certify(another, pki.API)
	_, err = k.open(t.Context(), of)
	require.ErrorContains(t, err, "console_proxy.identity")
	require.NoError(t, os.WriteFile(k.file, good, 0o600))
	line, err := k.open(t.Context(), of)
	require.NoError(t, err)
	require.NoError(t, line.Close())
}

// Any number of words that are no tokens leave connections of the database to sessions that are open.
func TestLooksAtTokensLeaveConnections(t *testing.T) {
	t.Parallel()
	k := setupTokens(t)
	slow, err := k.pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = slow.Rollback(context.Background()) })
	_, err = slow.Exec(t.Context(), `LOCK TABLE console_tokens`)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, err := k.use(ctx, "none")
			require.Equal(t, compute.Unavailable, compute.KindOf(err))
		})
	}
	require.Eventually(t, func() bool { return len(k.looks) == cap(k.looks) }, time.Minute, time.Millisecond)
	time.Sleep(100 * time.Millisecond) // for the others to come
	answers, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	_, err = schema.New(k.pool).ConsoleHolds(answers, schema.ConsoleHoldsParams{ServerID: k.server, HostID: k.host.UUID, Serial: "1"})
	require.NoError(t, err)
	cancel()
	all.Wait()
}
