package record_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/credential"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/seal"
)

// keep puts a sealed token there, as the API does with a request.
func (b *bundle) keep(id uuid.UUID, token string) *credential.Store {
	b.t.Helper()
	box, err := seal.Parse([]byte(seal.NewKey()))
	require.NoError(b.t, err)
	require.NoError(b.t, b.q.InsertCredential(b.ctx, schema.InsertCredentialParams{
		ID: id, ProjectID: owner.ProjectID, UserID: owner.UserID, Sealed: box.Seal(compute.Credential{ID: id, ProjectID: owner.ProjectID, UserID: owner.UserID}, []byte(token)),
	}))
	return &credential.Store{Pool: b.Pool, Box: box}
}

// The token of a request is wiped by the end of the last operation that acts with
// it, whichever that is.
func TestATokenEndsWithItsLastOperation(t *testing.T) {
	t.Parallel()
	for range 10 {
		b := setup(t)
		store := b.keep(owner.ID, "a token")
		ops := []durable.OperationInput{b.server(compute.OpCreate), b.server(compute.OpCreate), b.server(compute.OpCreate)}
		got, err := store.Authority(b.ctx, owner)
		require.NoError(t, err)
		require.Equal(t, owner.ProjectID, got.ProjectID)
		require.NoError(t, got.Token.Use(func(v []byte) error { require.Equal(t, "a token", string(v)); return nil }))

		settle := func(i int) error {
			return b.Settle(b.ctx, record.SettleInput{OperationInput: ops[i], State: compute.OperationSucceeded, VMState: compute.VMActive})
		}
		require.NoError(t, settle(0))
		_, err = store.Authority(b.ctx, owner)
		require.NoError(t, err, "two more act with it")
		for _, err := range atOnce(2, func(i int) error { return settle(i + 1) }) {
			require.NoError(t, err)
		}
		_, err = store.Authority(b.ctx, owner)
		require.True(t, compute.Is(err, compute.Forbidden), "%v", err)
		require.Equal(t, "credentials:\n\n", b.Dump("credentials"))
	}
}

// An operation that may not even begin ends its token all the same.
func TestATokenEndsWithAnOperationThatWasSuperseded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.keep(owner.ID, "a token")
	in := b.server(compute.OpStart)
	_, err := b.Pool.Exec(b.ctx, "UPDATE servers SET current_operation = 'req-other'")
	require.NoError(t, err)
	got, err := b.Begin(b.ctx, in)
	require.NoError(t, err)
	require.True(t, got.Superseded)
	require.Equal(t, "credentials:\n\n", b.Dump("credentials"))
}

// H9: a token that was sealed with a key that was replaced is a credential that is gone.
func TestH9ACredentialOpensWithItsKeyOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.keep(owner.ID, "a token")
	other, err := seal.Parse([]byte(seal.NewKey()))
	require.NoError(t, err)
	_, err = (&credential.Store{Pool: b.Pool, Box: other}).Authority(b.ctx, owner)
	require.True(t, compute.Is(err, compute.Forbidden), "%v", err)
	require.ErrorContains(t, err, "its key is not in the file")
	_, err = store.Authority(b.ctx, compute.Credential{ID: uuid.New()})
	require.True(t, compute.Is(err, compute.Forbidden), "%v", err)
	store.Pool.Close()
	_, err = store.Authority(b.ctx, owner)
	require.True(t, compute.Is(err, compute.Unavailable), "%v", err)
}

// A delegated credential stands for its trust until that is gone.
func TestATrust(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.keep(uuid.New(), "another's token")
	in := b.server(compute.OpCreate)
	save := record.Trust{Delegated: compute.DelegatedCredential(in.Server, "p1", "u1"), Trust: "t-1"}
	for range 2 {
		require.NoError(t, b.saveTrust(in, save))
	}
	got, err := store.Authority(b.ctx, save.Delegated)
	require.NoError(t, err)
	require.Equal(t, "t-1", got.TrustID)
	require.Nil(t, got.Token)
	for range 2 {
		require.NoError(t, b.ForgetTrust(b.ctx, save.Delegated))
	}
	_, err = store.Authority(b.ctx, save.Delegated)
	require.True(t, compute.Is(err, compute.Forbidden), "%v", err)

	b.supersede(in, compute.OpDelete, nil)
	require.True(t, record.IsSuperseded(b.saveTrust(in, save)), "fenced")
}
