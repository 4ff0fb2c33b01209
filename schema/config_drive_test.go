package schema_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// TestM7ServersOfBeforeHaveNoConfigDrive: they asked for one when there was none; only
// a create that has not begun will make it.
func TestM7ServersOfBeforeHaveNoConfigDrive(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	require.NoError(t, schema.Revert(t.Context(), pool, 7))
	want := map[string]bool{"accepted": true, "running": false, "": false}
	for state := range want {
		op := compute.NewOperationID()
		if state == "" {
			op = ""
		}
		id := compute.ServerID{UUID: uuid.New()}
		_, err := pool.Exec(t.Context(), `INSERT INTO servers (id, project_id, user_id, name, hostname, reservation_id, vm_state, flavor, config_drive, current_operation)
			VALUES ($1, 'p', 'u', $2, 'h', 'r', 'active', '{}', true, $3)`, id, state, op)
		require.NoError(t, err)
		if state != "" {
			_, err = pool.Exec(t.Context(), `INSERT INTO operations (id, server_id, kind, project_id, user_id, credential_id, state)
				VALUES ($1, $2, 'create', 'p', 'u', $3, $4)`, op, id, uuid.New(), state)
			require.NoError(t, err)
		}
	}
	require.NoError(t, schema.Migrate(t.Context(), pool))
	for state, drive := range want {
		var got bool
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT config_drive FROM servers WHERE name = $1`, state).Scan(&got))
		require.Equal(t, drive, got, state)
	}
	// M7: the way back brings what they had asked for.
	require.NoError(t, schema.Revert(t.Context(), pool, 7))
	var asked int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM servers WHERE config_drive`).Scan(&asked))
	require.Equal(t, len(want), asked)
}
