package gateway_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema/schematest"
	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

// ownRows are the tables in which a host's requests may change something: its own row and
// certificates, the power state and progress of its servers, and what the gateway notes of a key that it reads for it.
var ownRows = []string{"hosts", "host_certificates", "servers", "secret_sums"}

// H1: a lost host inserts no offer. An offer is made of a row of the ledger that waits, and a
// credential is used by an operation: whatever a host sends on whichever route, these and all
// other tables stay as they are.
func TestH1AHostInsertsNoOffer(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h, other := c.enrolled("mine"), c.enrolled("other")
	op, foreign := h.server(), other.server()
	secret, img := c.secret(op.ServerID, schematest.Owner), c.queued(schematest.Owner)
	waiting := map[string]any{
		"kind": "key_secret", "place": "key-manager", "name": "x", "state": "waiting", "blocked_by": "credential",
		"owner_kind": "host", "owner_id": h.id, "project_id": "p2", "user_id": "u2", "offered": true, "sealed": "AAAA", "trust_id": "t",
	}
	bodies := []any{waiting, []any{waiting}, map[string]any{"percent": 7}, h.request, map[string]any{"id": h.id, "project_id": "p2", "cpu_info": "e30=", "ledger": []any{waiting}}}
	for _, server := range []compute.ServerID{op.ServerID, foreign.ServerID} {
		for _, cred := range []compute.Credential{
			schematest.Owner, compute.DeploymentCredential(), {ID: uuid.New(), ProjectID: "p2", UserID: "u2"}, compute.DelegatedCredential(server, "p1", "u1"),
		} {
			body := map[string]any{"server": server, "credential": cred, "secret": secret, "blob": "strongroom-" + op.ServerID.String(), "after": ""}
			for key, value := range waiting {
				if body[key] == nil {
					body[key] = value
				}
			}
			bodies = append(bodies, body)
		}
	}
	var tables []string
	rows, err := c.DB.Query(c.Ctx, `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND table_name <> ALL ($1)`, ownRows)
	require.NoError(t, err)
	for rows.Next() {
		var table string
		require.NoError(t, rows.Scan(&table))
		tables = append(tables, table)
	}
	require.NoError(t, rows.Err())
	require.Subset(t, tables, []string{"credentials", "ledger", "operations"})
	before := c.Dump(tables...)

	client := pki.HTTPClient(&http.Transport{TLSClientConfig: pki.NewIdentity(h.got.Cert, h.keys.Sign, h.got.CA).Client(pki.Gateway)})
	let := map[string]bool{} // routes that answered
	for _, route := range gateway.Routes() {
		method, pattern, ok := strings.Cut(route, " ")
		require.True(t, ok, route)
		for _, server := range []compute.ServerID{op.ServerID, foreign.ServerID} {
			path := strings.NewReplacer("{server}", server.String(), "{image}", img.String()).Replace(pattern)
			require.NotContains(t, path, "{", "this test does not know what %s names", route)
			for _, body := range bodies {
				text, err := json.Marshal(body)
				require.NoError(t, err)
				for _, streams := range []bool{false, true} {
					r, err := http.NewRequestWithContext(c.Ctx, method, c.url+path, bytes.NewReader(text))
					require.NoError(t, err)
					if streams {
						r.Header.Set(gateway.HeaderPurpose, string(text))
					}
					answer, err := client.Do(r)
					require.NoError(t, err, route)
					_, _ = io.Copy(io.Discard, answer.Body) // an image that was not written is cut off
					require.NoError(t, answer.Body.Close())
					let[route] = let[route] || answer.StatusCode == http.StatusOK
					require.NotEqual(t, http.StatusInternalServerError, answer.StatusCode, "%s %s", route, text)
				}
			}
			require.Equal(t, before, c.Dump(tables...), route)
		}
	}
	require.Equal(t, 1, c.CountRows("SELECT count(*) FROM secret_sums"))
	require.Equal(t, 1, c.CountRows("SELECT count(*) FROM secret_sums WHERE server_id = $1 AND secret_id = $2", op.ServerID, secret))
	for _, route := range []string{"PUT /v1/host", "POST /v1/passphrase", "POST /v1/servers/{server}/progress", "POST /v1/renew"} {
		require.True(t, let[route], "%s was not tried as it is meant", route)
	}
}
