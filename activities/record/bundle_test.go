package record_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/ledger"
	"strongroom/activities/placement"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// bundle is a database of its own with the activities on it.
type bundle struct {
	*record.Activities
	*schematest.Fixture
	ledger    *ledger.Activities
	placement *placement.Activities
	t         *testing.T
	ctx       context.Context
	q         *schema.Queries
}

func setup(t *testing.T) *bundle {
	t.Helper()
	f := schematest.NewFixture(t)
	return &bundle{
		Activities: &record.Activities{Pool: f.DB}, Fixture: f, ledger: &ledger.Activities{Pool: f.DB},
		placement: &placement.Activities{Pool: f.DB}, t: t, ctx: f.Ctx, q: f.Q,
	}
}

var (
	owner      = schematest.Owner
	everything = schematest.Everything
	atOnce     = schematest.AtOnce
)

func input(op compute.Operation) durable.OperationInput {
	return durable.OperationInput{Operation: op.ID, Server: op.ServerID, Subject: op.Subject}
}

// server adds a server that an accepted operation has.
func (b *bundle) server(kind compute.OperationKind) durable.OperationInput {
	b.t.Helper()
	return input(b.Server(kind))
}

// supersede gives the server to another operation.
func (b *bundle) supersede(in durable.OperationInput, kind compute.OperationKind, arguments any) durable.OperationInput {
	b.t.Helper()
	return input(b.Supersede(in.Server, kind, arguments))
}

func (b *bundle) open(in durable.OperationInput, open record.Open) error {
	_, err := b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Open: &open})
	return err
}

func (b *bundle) close(in durable.OperationInput, end record.Close) error {
	_, err := b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Close: &end})
	return err
}

func (b *bundle) task(in durable.OperationInput, task compute.TaskState) error {
	_, err := b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Task: &task})
	return err
}

func (b *bundle) saveSecrets(in durable.OperationInput, secrets record.Secrets) error {
	_, err := b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Secrets: &secrets})
	return err
}

func (b *bundle) saveOptions(in durable.OperationInput, option record.Option) error {
	_, err := b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Options: []record.Option{option}})
	return err
}

func (b *bundle) saveTrust(in durable.OperationInput, trust record.Trust) error {
	_, err := b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Trust: &trust})
	return err
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

func (b *bundle) things(server compute.ServerID) []compute.Thing {
	b.t.Helper()
	things, err := b.ledger.Things(b.ctx, compute.ServerOwner(server))
	require.NoError(b.t, err)
	return things
}

func (b *bundle) states(server compute.ServerID) []compute.ThingState {
	b.t.Helper()
	var out []compute.ThingState
	for _, t := range b.things(server) {
		out = append(out, t.State)
	}
	return out
}

// thing is something that the operation makes.
func thing(in durable.OperationInput, kind compute.ThingKind, name string) compute.Thing {
	op := compute.Operation{ID: in.Operation, ServerID: in.Server, Credential: owner}
	return op.Thing(kind, compute.PlaceKeyManager, name)
}

// plan is a server that wants one vCPU.
var plan = compute.Server{Flavor: compute.Flavor{VCPUs: 1, MemoryMB: 512, RootGB: 1}, Traits: []string{"T_LUKS"}}

// How long to wait for what happens elsewhere.
const (
	timeout = 10 * time.Second
	tick    = 20 * time.Millisecond
)
