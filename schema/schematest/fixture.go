package schematest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
)

// Fixture is a database of a test's own with what a test puts there.
type Fixture struct {
	DB  *pgxpool.Pool
	Q   *schema.Queries
	Ctx context.Context

	t testing.TB
}

// NewFixture opens enough connections that calls at once really meet.
func NewFixture(t testing.TB) *Fixture {
	t.Helper()
	config := New(t).Config()
	config.MaxConns = 24
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return &Fixture{DB: pool, Q: schema.New(pool), Ctx: t.Context(), t: t}
}

// Owner is who owns the fixture's servers.
var Owner = compute.Credential{ID: uuid.New(), ProjectID: "p1", UserID: "u1"}

// Host adds a compute host that just reported itself.
func (f *Fixture) Host(name string, vcpus, memoryMB int32) compute.HostID {
	f.t.Helper()
	id := compute.HostID{UUID: uuid.New()}
	f.Report(id, name, vcpus, memoryMB)
	return id
}

// Report has a host report itself.
func (f *Fixture) Report(id compute.HostID, name string, vcpus, memoryMB int32) {
	f.t.Helper()
	_, err := f.Q.ReportHost(f.Ctx, schema.ReportHostParams{
		ID: id, Name: name, Traits: []string{"T_LUKS"}, Networks: []string{}, VCPUs: vcpus, MemoryMB: memoryMB, DiskGB: 10000,
		VCPURatio: 1, MemoryRatio: 1, DiskRatio: 1, CPUInfo: []byte(`{}`), AvailabilityZone: "az-" + name,
	})
	require.NoError(f.t, err)
}

// Server adds a server with an encrypted disk and a vTPM, given to an accepted operation.
func (f *Fixture) Server(kind compute.OperationKind) compute.Operation {
	f.t.Helper()
	op := compute.Operation{ID: compute.NewOperationID(), ServerID: compute.ServerID{UUID: uuid.New()}, Kind: kind}
	require.NoError(f.t, f.Q.InsertServer(f.Ctx, schema.InsertServerParams{
		ID: op.ServerID, ProjectID: Owner.ProjectID, UserID: Owner.UserID, Name: "vm", Hostname: "vm", ReservationID: "r-1",
		VMState: compute.VMBuilding, TaskState: compute.TaskScheduling,
		Flavor:         compute.Flavor{ID: "1", Name: "small", VCPUs: 1, MemoryMB: 512, RootGB: 1},
		TPM:            &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB},
		RequiredTraits: []string{"T_LUKS"}, ForbiddenTraits: []string{}, Networks: []compute.Network{}, Metadata: map[string]string{},
		Tags: []string{}, DiskConfig: "MANUAL", CurrentOperation: op.ID,
	}))
	require.NoError(f.t, f.Q.InsertServerDisk(f.Ctx, schema.InsertServerDiskParams{
		ID: compute.DiskID{UUID: uuid.New()}, ServerID: op.ServerID, Role: compute.RootDisk, DeviceName: "/dev/vda", Bus: "virtio", SizeMB: 1024,
		Encrypted: true, EncryptionFormat: compute.FormatLUKS,
	}))
	f.Operation(op, nil)
	return op
}

// Operation adds an accepted operation.
func (f *Fixture) Operation(op compute.Operation, arguments any) {
	f.t.Helper()
	text, err := json.Marshal(arguments)
	require.NoError(f.t, err)
	row := schema.InsertOperationParams{
		ID: op.ID, ServerID: op.ServerID.UUID, Kind: op.Kind, ProjectID: Owner.ProjectID, UserID: Owner.UserID, CredentialID: Owner.ID,
		Arguments: text, State: compute.OperationAccepted,
	}
	if op.Subject != (compute.Owner{}) {
		row.SubjectKind, row.SubjectID = op.Subject.Kind, &op.Subject.ID
	}
	require.NoError(f.t, f.Q.InsertOperation(f.Ctx, row))
}

// Supersede gives the server to another operation, as the API does.
func (f *Fixture) Supersede(server compute.ServerID, kind compute.OperationKind, arguments any) compute.Operation {
	f.t.Helper()
	next := compute.Operation{ID: compute.NewOperationID(), ServerID: server, Kind: kind}
	f.Operation(next, arguments)
	f.Exec("UPDATE servers SET current_operation = $1 WHERE id = $2", next.ID, server)
	return next
}

// Exec runs a statement.
func (f *Fixture) Exec(query string, args ...any) {
	f.t.Helper()
	_, err := f.DB.Exec(f.Ctx, query, args...)
	require.NoError(f.t, err)
}

// CountRows gives the number that a query counts.
func (f *Fixture) CountRows(query string, args ...any) (n int) {
	f.t.Helper()
	require.NoError(f.t, f.DB.QueryRow(f.Ctx, query, args...).Scan(&n))
	return n
}

// Everything names the tables that operations write.
var Everything = []string{"servers", "server_disks", "server_system_metadata", "claims", "operations", "operation_events", "ledger"}

// Dump is the content of tables as text.
func (f *Fixture) Dump(tables ...string) string {
	f.t.Helper()
	var all strings.Builder
	for _, table := range tables {
		var text string
		query := fmt.Sprintf("SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') FROM %s t", table)
		require.NoError(f.t, f.DB.QueryRow(f.Ctx, query).Scan(&text))
		all.WriteString(table + ":\n" + text + "\n")
	}
	return all.String()
}

// AtOnce calls do from n goroutines and gives their errors.
func AtOnce(n int, do func(i int) error) []error {
	errs, start, done := make([]error, n), make(chan struct{}), make(chan struct{})
	for i := range n {
		go func() {
			<-start
			errs[i] = do(i)
			done <- struct{}{}
		}()
	}
	close(start)
	for range n {
		<-done
	}
	return errs
}
