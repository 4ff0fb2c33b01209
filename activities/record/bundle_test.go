package record_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// bundle is a database of its own with the activities on it.
type bundle struct {
	*record.Activities
	t   *testing.T
	ctx context.Context
	q   *schema.Queries
}

// setup opens enough connections that calls at once really meet.
func setup(t *testing.T) *bundle {
	t.Helper()
	config := schematest.New(t).Config()
	config.MaxConns = 24
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return &bundle{Activities: &record.Activities{Pool: pool}, t: t, ctx: t.Context(), q: schema.New(pool)}
}

// host adds a compute host that just reported itself.
func (b *bundle) host(name string, vcpus, memoryMB int32) compute.HostID {
	b.t.Helper()
	id := compute.HostID{UUID: uuid.New()}
	require.NoError(b.t, b.q.ReportHost(b.ctx, schema.ReportHostParams{
		ID: id, Name: name, Traits: []string{"T_LUKS"}, Networks: []string{}, VCPUs: vcpus, MemoryMB: memoryMB, DiskGB: 10000,
		VCPURatio: 1, MemoryRatio: 1, DiskRatio: 1, CPUInfo: []byte(`{}`), AvailabilityZone: "az-" + name,
	}))
	return id
}

var owner = compute.Credential{ID: uuid.New(), ProjectID: "p1", UserID: "u1"}

// server adds a server with an encrypted disk and a vTPM, handed to an accepted
// operation.
func (b *bundle) server(kind compute.OperationKind) durable.OperationInput {
	b.t.Helper()
	id, op := compute.ServerID{UUID: uuid.New()}, compute.NewOperationID()
	require.NoError(b.t, b.q.InsertServer(b.ctx, schema.InsertServerParams{
		ID: id, ProjectID: owner.ProjectID, UserID: owner.UserID, Name: "vm", Hostname: "vm", ReservationID: "r-1",
		VMState: compute.VMBuilding, TaskState: compute.TaskScheduling,
		Flavor:         compute.Flavor{ID: "1", Name: "small", VCPUs: 1, MemoryMB: 512, RootGB: 1},
		TPM:            &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB},
		RequiredTraits: []string{"T_LUKS"}, ForbiddenTraits: []string{}, Networks: []compute.Network{}, Metadata: map[string]string{},
		Tags: []string{}, DiskConfig: "MANUAL", CurrentOperation: op,
	}))
	require.NoError(b.t, b.q.InsertServerDisk(b.ctx, schema.InsertServerDiskParams{
		ID: compute.DiskID{UUID: uuid.New()}, ServerID: id, Role: compute.RootDisk, DeviceName: "/dev/vda", Bus: "virtio", SizeMB: 1024,
		Encrypted: true, EncryptionFormat: compute.FormatLUKS,
	}))
	in := durable.OperationInput{Operation: op, Server: id}
	b.operation(in, kind, nil)
	return in
}

func (b *bundle) operation(in durable.OperationInput, kind compute.OperationKind, arguments any) {
	b.t.Helper()
	text, err := json.Marshal(arguments)
	require.NoError(b.t, err)
	require.NoError(b.t, b.q.InsertOperation(b.ctx, schema.InsertOperationParams{
		ID: in.Operation, ServerID: in.Server, Kind: kind, ProjectID: owner.ProjectID, UserID: owner.UserID, CredentialID: owner.ID,
		Arguments: text, State: compute.OperationAccepted,
	}))
}

// supersede hands the server to another operation, as the API does.
func (b *bundle) supersede(in durable.OperationInput, kind compute.OperationKind, arguments any) durable.OperationInput {
	b.t.Helper()
	next := durable.OperationInput{Operation: compute.NewOperationID(), Server: in.Server}
	b.operation(next, kind, arguments)
	_, err := b.Pool.Exec(b.ctx, "UPDATE servers SET current_operation = $1 WHERE id = $2", next.Operation, in.Server)
	require.NoError(b.t, err)
	return next
}

func (b *bundle) disk(in durable.OperationInput) compute.DiskID {
	b.t.Helper()
	disks, err := b.q.GetServerDisks(b.ctx, in.Server)
	require.NoError(b.t, err)
	return disks[0].ID
}

func (b *bundle) row(in durable.OperationInput) schema.Server {
	b.t.Helper()
	row, err := b.q.GetServer(b.ctx, in.Server)
	require.NoError(b.t, err)
	return row
}

func (b *bundle) op(in durable.OperationInput) schema.Operation {
	b.t.Helper()
	row, err := b.q.GetOperation(b.ctx, in.Operation)
	require.NoError(b.t, err)
	return row
}

// thing is something that the operation makes.
func thing(in durable.OperationInput, kind compute.ThingKind, name string) compute.Thing {
	return compute.Thing{
		ID: in.Operation.Derive(string(kind) + name), Kind: kind, Place: compute.PlaceKeyManager, Name: name,
		Server: in.Server, Operation: in.Operation, Credential: owner,
	}
}

// dump is the content of tables as text.
func (b *bundle) dump(tables ...string) string {
	b.t.Helper()
	var all strings.Builder
	for _, table := range tables {
		var text string
		query := fmt.Sprintf("SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') FROM %s t", table)
		require.NoError(b.t, b.Pool.QueryRow(b.ctx, query).Scan(&text))
		all.WriteString(table + ":\n" + text + "\n")
	}
	return all.String()
}

var everything = []string{"servers", "server_disks", "server_system_metadata", "claims", "operations", "operation_events", "ledger"}

// atOnce calls f from n goroutines and gives their errors.
func atOnce(n int, f func(i int) error) []error {
	errs, start, done := make([]error, n), make(chan struct{}), make(chan struct{})
	for i := range n {
		go func() {
			<-start
			errs[i] = f(i)
			done <- struct{}{}
		}()
	}
	close(start)
	for range n {
		<-done
	}
	return errs
}

// How long to wait for what happens elsewhere.
const (
	timeout = 10 * time.Second
	tick    = 20 * time.Millisecond
)
