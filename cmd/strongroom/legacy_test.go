package main

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/schema/schematest"
)

// EE-35: the commands as an operator runs them, by their exit codes.
func TestLegacyCommands(t *testing.T) {
	pool := schematest.New(t)
	t.Setenv("STRONGROOM_DATABASE__URL", pool.Config().ConnString())
	exec := func(sql string, args ...any) {
		_, err := pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	add := func(format string) string {
		id := uuid.NewString()
		exec(`INSERT INTO servers (id, project_id, user_id, name, hostname, reservation_id, vm_state, flavor, ephemeral_key_uuid)
			VALUES ($1, 'p', 'u', 'vm', 'vm', 'r-1', 'stopped', '{}', $2)`, id, uuid.New())
		exec(`INSERT INTO server_disks (id, server_id, role, device_name, size_mb, encrypted, encryption_format)
			VALUES ($1, $2, 'root', '/dev/vda', 1, $3 <> '', $3)`, uuid.New(), id, format)
		return id
	}
	code := func(c interface{ Run(*run) error }) int {
		err := c.Run(&run{Context: t.Context(), cli: &cli{}})
		if err == nil {
			return 0
		}
		return exitCode(err)
	}
	keys := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM servers WHERE ephemeral_key_uuid IS NOT NULL").Scan(&n))
		return n
	}
	table := output{Output: "table"}
	require.Zero(t, code(legacyStatus{table}))
	require.Zero(t, code(legacyMigrate{output: table}))
	for range 3 {
		add("")
	}
	require.Equal(t, codeMore, code(legacyStatus{table}))
	require.Equal(t, 3, keys(), "status changes nothing")
	require.Equal(t, codeMore, code(legacyMigrate{output: table, MaxCount: 2}))
	require.Equal(t, 1, keys())
	require.Zero(t, code(legacyMigrate{output: table, MaxCount: 2}))
	require.Zero(t, keys())
	require.Zero(t, code(legacyStatus{output{Output: "json"}}))
	add("luks")
	add("")
	require.Equal(t, codeStuck, code(legacyStatus{table}))
	require.Equal(t, codeStuck, code(legacyMigrate{output: table, MaxCount: 1}), "what is stuck counts for nothing")
	require.Equal(t, 1, keys())
	require.Equal(t, codeStuck, code(legacyMigrate{output: table, MaxCount: -1}))
	t.Setenv("STRONGROOM_LEGACY__CIPHER", "rot13")
	require.Equal(t, codeStuck, code(legacyMigrate{output: table}))
	t.Setenv("STRONGROOM_LEGACY__CIPHER", "aes-xts-plain64")
	t.Setenv("STRONGROOM_LEGACY__HASH", "no hash")
	require.Equal(t, codeStuck, code(legacyMigrate{output: table}))
	t.Setenv("STRONGROOM_LEGACY__HASH", "ripemd160")
	t.Setenv("STRONGROOM_DATABASE__URL", "postgres:///none?host="+filepath.Join(t.TempDir(), "nowhere"))
	require.Equal(t, codeStuck, code(legacyStatus{table}))
}

// The codes reach the shell through kong's own interface.
func TestExitCode(t *testing.T) {
	t.Parallel()
	var asks kong.ExitCoder
	require.ErrorAs(t, exit{errors.New("x"), codeStuck}, &asks)
	require.Equal(t, 2, exitCode(exit{errors.New("x"), codeStuck}))
	require.Equal(t, 1, exitCode(errors.New("x")))
}
