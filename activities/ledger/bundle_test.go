package ledger_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/fence"
	"strongroom/schema/schematest"
)

// bundle is a database of its own with the activities on it.
type bundle struct {
	*ledger.Activities
	*schematest.Fixture
	t *testing.T
}

func setup(t *testing.T) *bundle {
	t.Helper()
	f := schematest.NewFixture(t)
	return &bundle{Activities: &ledger.Activities{Pool: f.DB}, Fixture: f, t: t}
}

// write writes to the ledger in one transaction.
func (b *bundle) write(do func(*schema.Queries) error) {
	b.t.Helper()
	require.NoError(b.t, fence.Transaction(b.Ctx, b.DB, do))
}

func (b *bundle) open(things ...compute.Thing) {
	b.t.Helper()
	b.write(func(q *schema.Queries) error { return ledger.Open(b.Ctx, q, things) })
}

// present puts things on the ledger that exist.
func (b *bundle) present(things ...compute.Thing) {
	b.t.Helper()
	b.open(things...)
	b.write(func(q *schema.Queries) error { return ledger.Present(b.Ctx, q, things) })
}

// waits puts things on the ledger that wait.
func (b *bundle) waits(by compute.Blocker, things ...compute.Thing) {
	b.t.Helper()
	b.open(things...)
	b.again(by, things...)
}

// again says that things still wait.
func (b *bundle) again(by compute.Blocker, things ...compute.Thing) {
	b.t.Helper()
	b.write(func(q *schema.Queries) error {
		for _, t := range things {
			if err := ledger.Wait(b.Ctx, q, []compute.Thing{t.Waits(by, "why")}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bundle) release(things ...compute.Thing) {
	b.t.Helper()
	b.write(func(q *schema.Queries) error { return ledger.Release(b.Ctx, q, things) })
}

// thing is something that a server has.
func thing(owner compute.Owner, kind compute.ThingKind, place, name string) compute.Thing {
	return compute.Thing{
		ID: uuid.New(), Kind: kind, Place: place, Name: name, Owner: owner, Operation: "req-1", Credential: schematest.Owner,
	}
}

// idle adds a server that no operation is at work on.
func (b *bundle) idle() compute.Owner {
	b.t.Helper()
	op := b.Server(compute.OpCreate)
	b.Exec("UPDATE servers SET current_operation = '', updated_at = now() - interval '1 hour' WHERE id = $1", op.ServerID)
	return compute.ServerOwner(op.ServerID)
}

// due gives the names of what is due.
func (b *bundle) due() []string {
	b.t.Helper()
	got, err := b.Due(b.Ctx, ledger.DueInput{})
	require.NoError(b.t, err)
	is, err := b.IsDue(b.Ctx)
	require.NoError(b.t, err)
	require.Equal(b.t, len(got.Things)+len(got.Offers) > 0, is)
	return names(got.Things)
}

func names(things []compute.Thing) []string {
	var out []string
	for _, t := range things {
		out = append(out, t.Name)
	}
	return out
}
