package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/legacy/novatest"
	"strongroom/compute"
	"strongroom/schema/schematest"
	"strongroom/worker/pki"
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

// EE-48: servers are described by a file or by Nova's database, whose URL is in a file and no argument.
func TestLegacyImportReadsOneOfTwo(t *testing.T) {
	at := schematest.Empty(t).Config().ConnString()
	file := filepath.Join(t.TempDir(), "nova.url")
	require.NoError(t, os.WriteFile(file, []byte(at+"\n"), 0o600))
	for _, c := range []struct {
		legacyImport
		says string
	}{
		{legacyImport{}, "either a file"},
		{legacyImport{File: file, NovaDatabase: file}, "either a file"},
		{legacyImport{File: file, NovaHost: "compute1"}, "--nova-host goes with --nova-database"},
		{legacyImport{File: file}, "cannot be read"},
		{legacyImport{NovaDatabase: file}, `"instances" does not exist`}, // it is none of Nova's
	} {
		require.ErrorContains(t, c.Run(&run{Context: t.Context(), cli: &cli{}}), c.says)
	}
}

// EE-48: servers of a database of Nova's, of either kind, are imported: those on the host that is named, or none
// where they only could be.
func TestLegacyImportOfNovasDatabase(t *testing.T) {
	for kind, start := range novatest.Databases {
		t.Run(kind, func(t *testing.T) {
			nova := start(t)
			id, key := uuid.NewString(), uuid.NewString()
			nova.Has(t, map[string]any{"uuid": id, "host": "compute1", "ephemeral_key_uuid": key})
			nova.Has(t, map[string]any{"host": "compute2", "ephemeral_key_uuid": uuid.NewString(), "vm_state": "active"})
			file := filepath.Join(t.TempDir(), "nova.url")
			require.NoError(t, os.WriteFile(file, []byte(nova.URL+"\n"), 0o600))

			b := schematest.NewFixture(t)
			t.Setenv("STRONGROOM_DATABASE__URL", b.DB.Config().ConnString())
			authority := filepath.Join(t.TempDir(), "ca")
			_, err := pki.Ensure(authority)
			require.NoError(t, err)
			t.Setenv("STRONGROOM_GATEWAY__AUTHORITY", authority)
			t.Setenv("STRONGROOM_TEMPORAL__ADDRESS", "127.0.0.1:1") // there is none: what begins waits for a control worker
			host := b.Host("compute1", 8, 8192)
			b.Exec("UPDATE hosts SET traits = array_append(traits, $1)", compute.TraitEncryptionPlain)

			c := legacyImport{NovaDatabase: file, NovaHost: "compute1", DryRun: true, Timeout: time.Millisecond}
			r := &run{Context: t.Context(), cli: &cli{}, log: slog.New(slog.NewTextHandler(t.Output(), nil))}
			require.NoError(t, c.Run(r))
			require.Zero(t, b.CountRows("SELECT count(*) FROM servers"), "it only could be")
			c.DryRun = false
			require.ErrorContains(t, c.Run(r), "1 of 1 servers are not imported", "it goes on")
			require.Equal(t, 1, b.CountRows("SELECT count(*) FROM servers"))
			require.Equal(t, 1, b.CountRows(`SELECT count(*) FROM servers WHERE id = $1 AND ephemeral_key_uuid = $2 AND host_id = $3
				AND name = 'a database' AND project_id = '7c8e4b1f0d6a4a6c9b2f3e5d1a0c9b8e'`, id, key, host))
			c.NovaHost = ""
			require.ErrorContains(t, c.Run(r), "is active in Nova: shut it down")
		})
	}
}

// The codes reach the shell through kong's own interface.
func TestExitCode(t *testing.T) {
	t.Parallel()
	var asks kong.ExitCoder
	require.ErrorAs(t, exit{errors.New("x"), codeStuck}, &asks)
	require.Equal(t, 2, exitCode(exit{errors.New("x"), codeStuck}))
	require.Equal(t, 1, exitCode(errors.New("x")))
}
