package schema_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// onTwoHosts is a database with a server and two hosts.
func onTwoHosts(t *testing.T) (pool *pgxpool.Pool, server uuid.UUID, hosts []uuid.UUID) {
	t.Helper()
	pool, server = schematest.New(t), uuid.New()
	_, err := pool.Exec(t.Context(), `INSERT INTO servers (id, project_id, user_id, name, hostname, reservation_id, vm_state, flavor)
		VALUES ($1, 'p', 'u', 'vm', 'vm', 'r', 'active', '{}')`, server)
	require.NoError(t, err)
	for _, name := range []string{"h1", "h2"} {
		id := uuid.New()
		_, err := pool.Exec(t.Context(), "INSERT INTO hosts (id, name, vcpus, memory_mb, disk_gb, last_seen) VALUES ($1, $2, 1, 1, 1, now())", id, name)
		require.NoError(t, err)
		hosts = append(hosts, id)
	}
	return pool, server, hosts
}

// B1: a server has a claim on each of two hosts while it moves, and one for each operation.
func TestB1OneServerHasClaimsOnTwoHosts(t *testing.T) {
	t.Parallel()
	pool, server, hosts := onTwoHosts(t)
	claim := func(host uuid.UUID, operation string) error {
		_, err := pool.Exec(t.Context(), "INSERT INTO claims (server_id, host_id, operation_id, vcpus, memory_mb, disk_gb) VALUES ($1, $2, $3, 1, 1, 1)",
			server, host, operation)
		return err
	}
	require.NoError(t, claim(hosts[0], "req-create"))
	require.NoError(t, claim(hosts[1], "req-migrate"))
	require.NoError(t, claim(hosts[0], "req-resize"), "a resize on the same host")
	require.ErrorContains(t, claim(hosts[1], "req-migrate"), "duplicate key")
}

// H4: what a list reads of an operation has a bound; its arguments have what its user chose.
func TestH4ATrailHasNoArguments(t *testing.T) {
	t.Parallel()
	pool, server, _ := onTwoHosts(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO operations (id, server_id, kind, project_id, user_id, credential_id, arguments)
		VALUES ('req-1', $1, 'rebuild', 'p', 'u', $1, '{"change": {"metadata": {"a": "b"}}}')`, server)
	require.NoError(t, err)
	rows, err := schema.New(pool).ServerOperations(t.Context(), schema.ServerOperationsParams{ServerID: compute.ServerID{UUID: server}, Most: 10})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.JSONEq(t, "{}", string(rows[0].Arguments))
}

// B3: an operation has an event of the same name on each of two hosts, and one without a
// host.
func TestB3OneStepHasAnEventOnEachHost(t *testing.T) {
	t.Parallel()
	pool, server, hosts := onTwoHosts(t)
	_, err := pool.Exec(t.Context(), "INSERT INTO operations (id, server_id, kind, project_id, user_id, credential_id) VALUES ('req-1', $1, 'migrate', 'p', 'u', $1)", server)
	require.NoError(t, err)
	event := func(host *uuid.UUID) error {
		_, err := pool.Exec(t.Context(), "INSERT INTO operation_events (operation_id, event, started_at, host_id) VALUES ('req-1', 'connect', now(), $1)", host)
		return err
	}
	for _, host := range []*uuid.UUID{&hosts[0], &hosts[1], nil} {
		require.NoError(t, event(host))
		require.ErrorContains(t, event(host), "duplicate key", "once at each place")
	}
}

// B5: a thing on the ledger may belong to a share, a volume or a host, with no server.
func TestB5AThingHasAnOwnerThatIsNoServer(t *testing.T) {
	t.Parallel()
	pool, _, hosts := onTwoHosts(t)
	for _, kind := range []string{"share", "volume", "host"} {
		_, err := pool.Exec(t.Context(), `INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id)
			VALUES (gen_random_uuid(), 'mount', $1, $2, $2, gen_random_uuid(), 'req-1', gen_random_uuid(), 'p', 'u')`, hosts[0].String(), kind)
		require.NoError(t, err)
	}
}

// B6: an operation works on a server or on another subject, and on one of them.
func TestB6AnOperationWorksOnAServerOrOnASubject(t *testing.T) {
	t.Parallel()
	pool, server, hosts := onTwoHosts(t)
	operation := func(id string, server *uuid.UUID, kind string, subject *uuid.UUID) error {
		_, err := pool.Exec(t.Context(), `INSERT INTO operations (id, server_id, subject_kind, subject_id, kind, project_id, user_id, credential_id)
			VALUES ($1, $2, $3, $4, 'drain', 'p', 'u', gen_random_uuid())`, id, server, kind, subject)
		return err
	}
	require.NoError(t, operation("req-1", &server, "", nil))
	require.NoError(t, operation("req-2", nil, "host", &hosts[0]))
	require.ErrorContains(t, operation("req-3", nil, "", nil), "check constraint", "on nothing")
	require.ErrorContains(t, operation("req-4", &server, "host", &hosts[0]), "check constraint", "on two")
}
