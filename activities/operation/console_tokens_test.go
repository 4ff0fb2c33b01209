package operation_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
)

// Tokens of consoles that open nothing any more are forgotten, and no others.
func TestConsoleTokensAreForgotten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host := compute.HostID{UUID: uuid.New()}
	b.exec(`INSERT INTO hosts (id, name, agent_url, vcpus, memory_mb, disk_gb, last_seen) VALUES ($1, 'node-1', '', 8, 8192, 100, now())`, host)
	token := func(name string) compute.ServerID {
		id := b.server()
		b.exec(`UPDATE servers SET host_id = $1 WHERE id = $2`, host, id)
		require.NoError(t, b.q.InsertConsoleToken(t.Context(), schema.InsertConsoleTokenParams{
			Hash: []byte(name), ServerID: id, HostID: host, Type: compute.ConsoleSerial, Seconds: 600,
		}))
		return id
	}
	token("good")
	token("late")
	left, gone := token("left"), token("gone")
	b.exec(`UPDATE console_tokens SET expires_at = now() - interval '1 second' WHERE hash = 'late'`)
	b.exec(`UPDATE servers SET host_id = NULL WHERE id = $1`, left)
	b.exec(`UPDATE servers SET deleted_at = now() WHERE id = $1`, gone)
	require.NoError(t, b.Record.ForgetConsoleTokens(t.Context()))
	var names []string
	require.NoError(t, b.Pool.QueryRow(t.Context(), `SELECT array_agg(convert_from(hash, 'UTF8')) FROM console_tokens`).Scan(&names))
	require.Equal(t, []string{"good"}, names)
}
