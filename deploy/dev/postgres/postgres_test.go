package postgres_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/postgres"
	"strongroom/deploy/dev/process"
)

func folder(t *testing.T) string {
	t.Helper()
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres"); len(found) == 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("no PostgreSQL server is installed")
		}
		t.Skip("needs a PostgreSQL server: apt-get install postgresql")
	}
	dir, err := os.MkdirTemp("/tmp", "sr-pg-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o711))
	return dir
}

func start(t *testing.T, cfg postgres.Config) *postgres.Server {
	t.Helper()
	s, err := postgres.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(context.Background())) })
	return s
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func TestStopAndGoOn(t *testing.T) {
	t.Parallel()
	cfg := postgres.Config{Dir: folder(t)}
	first := start(t, cfg)
	_, err := connect(t, first.URL()).Exec(t.Context(), "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")
	require.NoError(t, err)
	require.NoError(t, first.Stop(t.Context()), "with a client that stays")
	log, err := os.ReadFile(filepath.Join(cfg.Dir, "postgres.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "received fast shutdown request")
	require.Contains(t, string(log), "database system is shut down", "in good order")

	var n int
	require.NoError(t, connect(t, start(t, cfg).URL()).QueryRow(t.Context(), "SELECT n FROM kept").Scan(&n))
	require.Equal(t, 7, n)
}

// A crash of the server loses nothing that was committed.
func TestKillAndGoOn(t *testing.T) {
	t.Parallel()
	cfg := postgres.Config{Dir: folder(t)}
	first := start(t, cfg)
	_, err := connect(t, first.URL()).Exec(t.Context(), "CREATE TABLE kept (n int)")
	require.NoError(t, err)
	require.NoError(t, first.Kill(t.Context()))
	second := start(t, cfg)
	_, err = connect(t, second.URL()).Exec(t.Context(), "INSERT INTO kept VALUES (7)")
	require.NoError(t, err)
}

func TestDatabases(t *testing.T) {
	t.Parallel()
	s := start(t, postgres.Config{Dir: folder(t), Volatile: true})
	require.NoError(t, s.Database(t.Context(), "other"))
	require.NoError(t, s.Database(t.Context(), "other"), "ensuring twice is no error")
	var name, role, addresses string
	require.NoError(t, connect(t, s.DatabaseURL("other")).QueryRow(t.Context(),
		"SELECT current_database(), current_user, current_setting('listen_addresses')").Scan(&name, &role, &addresses))
	require.Equal(t, []string{"other", postgres.Role, ""}, []string{name, role, addresses})
}

func TestTwoAtOnceAreRefused(t *testing.T) {
	t.Parallel()
	cfg := postgres.Config{Dir: folder(t), Volatile: true}
	s := start(t, cfg)
	_, err := postgres.Start(t.Context(), cfg)
	require.ErrorIs(t, err, process.ErrInUse)
	connect(t, s.URL())
}

// What an interrupted initdb left is no cluster.
func TestUnfinishedClusterIsMadeAnew(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data.new", "base"), 0o700))
	start(t, postgres.Config{Dir: dir, Volatile: true})
	require.NoDirExists(t, filepath.Join(dir, "data.new"))
}

func TestUnreachableFolder(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root runs the server as somebody else")
	}
	dir := folder(t)
	require.NoError(t, os.Chmod(dir, 0o700))
	_, err := postgres.Start(t.Context(), postgres.Config{Dir: filepath.Join(dir, "pg")})
	require.ErrorContains(t, err, "the user postgres cannot pass through "+dir+" (mode 700)")
}

func TestPathTooLong(t *testing.T) {
	t.Parallel()
	_, err := postgres.Start(t.Context(), postgres.Config{Dir: "/tmp/" + string(make([]byte, 80))})
	require.ErrorContains(t, err, "at most 80 bytes")
}

// Another user of the machine has no way in.
func TestOthersAreRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root to be somebody else")
	}
	s := start(t, postgres.Config{Dir: folder(t), Volatile: true})
	out, err := as(65534, "/usr/bin/psql", s.URL(), "-c", "SELECT 1")
	require.Error(t, err)
	require.Contains(t, out, "Peer authentication failed")
	out, err = as(0, "/usr/bin/psql", s.URL(), "-c", "SELECT 1")
	require.NoError(t, err, out)
}

func as(uid uint32, command ...string) (string, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	return string(out), err
}
