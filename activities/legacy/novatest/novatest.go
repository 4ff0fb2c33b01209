// Package novatest gives tests databases with the tables of Nova.
package novatest

import (
	"bytes"
	"database/sql"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver
	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/port"
	"strongroom/schema/schematest"
)

// How Nova's objects store a flavor and interfaces.
const (
	novaFlavor = `{"cur": {"nova_object.name": "Flavor", "nova_object.namespace": "nova", "nova_object.version": "1.2", "nova_object.data": {"id": 1,
"name": "m1.small", "memory_mb": 2048, "vcpus": 2, "root_gb": 20, "ephemeral_gb": 5, "flavorid": "2", "swap": 512, "rxtx_factor": 1.0, "vcpu_weight": 0,
"disabled": false, "is_public": true, "extra_specs": {"hw:cpu_policy": "shared"}, "description": null, "created_at": null, "updated_at": null,
"deleted_at": null, "deleted": false}, "nova_object.changes": ["extra_specs"]}, "old": null, "new": null}`
	novaInterfaces = `[{"id": "d3b9a1e2-0000-4000-8000-000000000001", "address": "fa:16:3e:12:34:56", "network": {"id": "0c0fa2f5-6f2b-4c6d-9d0c-0a9d7a3ef2b1",
"bridge": "br-int", "label": "private", "subnets": [{"cidr": "10.0.0.0/24", "ips": [{"address": "10.0.0.5", "type": "fixed", "version": 4}]}], "meta": {}},
"type": "ovs", "details": {}, "devname": "tapd3b9a1e2-00", "active": true, "vnic_type": "normal"}]`
)

//go:embed *.sql
var allTables embed.FS

// Databases start a database of each kind that Nova can have, which ends with the test.
var Databases = map[string]func(*testing.T) Database{"mysql": mariaDB, "postgresql": postgreSQL}

// Database is a database with Nova's tables, and the URL of a user who may read it.
type Database struct {
	URL   string
	db    *sql.DB
	holds func(n int) string // the n-th value of a statement
}

// Has writes a server as Nova does, on which columns say what is particular.
func (n Database) Has(t *testing.T, columns map[string]any) {
	t.Helper()
	row := map[string]any{
		"uuid": uuid.NewString(), "project_id": "7c8e4b1f0d6a4a6c9b2f3e5d1a0c9b8e", "user_id": "2f4e6d8c0b1a4938a7b6c5d4e3f20112", "display_name": "a database",
		"hostname": "a-database", "image_ref": "9a8b7c6d-5e4f-4a3b-8c1d-0e9f8a7b6c5d", "vm_state": "stopped", "deleted": 0,
	}
	for name, value := range columns {
		row[name] = value
	}
	n.insert(t, "instances", row)
	n.insert(t, "instance_extra", map[string]any{"instance_uuid": row["uuid"], "deleted": 0, "flavor": novaFlavor})
	n.insert(t, "instance_info_caches", map[string]any{"instance_uuid": row["uuid"], "deleted": 0, "network_info": novaInterfaces})
	for key, value := range map[string]any{"image_hw_disk_bus": "scsi", "image_hw_machine_type": "q35", "image_min_disk": "1", "boot_roles": "member", "owner_user_name": nil} {
		n.insert(t, "instance_system_metadata", map[string]any{"instance_uuid": row["uuid"], "deleted": 0, n.quoted("key"): key, "value": value})
	}
}

// quoted is a column whose name is a word of MySQL's.
func (n Database) quoted(column string) string {
	if n.holds(1) == "?" {
		return "`" + column + "`"
	}
	return column
}

func (n Database) insert(t *testing.T, table string, row map[string]any) {
	t.Helper()
	var columns, places []string
	var values []any
	for column, value := range row {
		columns, values = append(columns, column), append(values, value)
		places = append(places, n.holds(len(values)))
	}
	_, err := n.db.ExecContext(t.Context(), "INSERT INTO "+table+" ("+strings.Join(columns, ", ")+") VALUES ("+strings.Join(places, ", ")+")", values...) //nolint:gosec // the names are the test's own
	require.NoError(t, err)
}

func (n Database) withTables(t *testing.T, file string) Database {
	t.Helper()
	tables, err := allTables.ReadFile(file)
	require.NoError(t, err)
	_, err = n.db.ExecContext(t.Context(), string(tables))
	require.NoError(t, err)
	return n
}

func postgreSQL(t *testing.T) Database {
	t.Helper()
	at := schematest.Empty(t).Config().ConnString()
	db, err := sql.Open("pgx", at)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	n := Database{URL: strings.Replace(at, "postgres://", "postgresql+psycopg2://", 1), db: db, holds: func(n int) string { return fmt.Sprintf("$%d", n) }}
	return n.withTables(t, "nova_postgresql.sql")
}

// What a MariaDB is set up with, and the users of its database nova.
const (
	mariaTables = "/usr/share/mysql/mysql_system_tables.sql"
	mariaData   = "/usr/share/mysql/mysql_system_tables_data.sql"
	mariaUsers  = `CREATE DATABASE nova;
CREATE USER nova@'127.0.0.1' IDENTIFIED BY 'writes';
GRANT ALL ON nova.* TO nova@'127.0.0.1';
CREATE USER reader@'127.0.0.1' IDENTIFIED BY 're@ds';
GRANT SELECT ON nova.* TO reader@'127.0.0.1';
`
)

// mariaDB starts Debian's MariaDB, which ends with the test.
func mariaDB(t *testing.T) Database {
	t.Helper()
	program, err := exec.LookPath("mariadbd")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("needs the package mariadb-server-core")
	}
	require.NoError(t, err)
	dir := t.TempDir()
	ports, err := port.Free(t.Context(), 1)
	require.NoError(t, err)
	common := []string{"--no-defaults", "--user=root", "--datadir=" + filepath.Join(dir, "data"), "--innodb-buffer-pool-size=8M", "--innodb-log-file-size=4M"}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
	setup := [][]byte{[]byte("CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n")}
	for _, file := range []string{mariaTables, mariaData} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		setup = append(setup, text)
	}
	bootstrap := exec.CommandContext(t.Context(), program, append(common, "--bootstrap")...)
	bootstrap.Stdin = bytes.NewReader(bytes.Join(setup, nil))
	out, err := bootstrap.CombinedOutput()
	require.NoError(t, err, "%s", out)

	users := filepath.Join(dir, "users.sql")
	require.NoError(t, os.WriteFile(users, []byte(mariaUsers), 0o600))
	server := exec.Command(program, append(common, "--init-file="+users, "--socket="+filepath.Join(dir, "s"), "--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", ports[0]))...)
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	server.Stderr = t.Output()
	require.NoError(t, server.Start())
	db, err := sql.Open("mysql", fmt.Sprintf("nova:writes@tcp(127.0.0.1:%d)/nova?multiStatements=true", ports[0]))
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = db.Close()
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	require.Eventually(t, func() bool { return db.PingContext(t.Context()) == nil }, time.Minute, 50*time.Millisecond)
	n := Database{URL: fmt.Sprintf("mysql+pymysql://reader:re%%40ds@127.0.0.1:%d/nova?charset=utf8", ports[0]), db: db, holds: func(int) string { return "?" }}
	return n.withTables(t, "nova_mysql.sql")
}
