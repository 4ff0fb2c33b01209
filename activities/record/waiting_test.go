package record_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// left is a deleted server of which a key and a trust wait.
func (b *bundle) left() (in durable.OperationInput, key, trust compute.Thing) {
	b.t.Helper()
	in = b.server(compute.OpDelete)
	key, trust = thing(in, compute.ThingKeySecret, "k"+in.Server.String()), thing(in, compute.ThingTrust, "t"+in.Server.String())
	require.NoError(b.t, b.Open(b.ctx, record.OpenInput{OperationInput: in, Event: "e", Things: []compute.Thing{key, trust}}))
	key.Refused, trust.Refused = "no credential", "kept"
	require.NoError(b.t, b.Close(b.ctx, record.CloseInput{OperationInput: in, Event: "e", Waiting: []compute.Thing{key, trust}}))
	require.NoError(b.t, b.Bury(b.ctx, in), "what waits holds no delete up")
	return in, key, trust
}

func (b *bundle) waiting() record.WaitingResult {
	b.t.Helper()
	got, err := b.Waiting(b.ctx, record.WaitingInput{})
	require.NoError(b.t, err)
	return got
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.Pool.Exec(b.ctx, sql, args...)
	require.NoError(b.t, err)
}

// What waits is tried at growing intervals, and at once when somebody of its
// project offered a credential; the trust after the keys that it may remove.
func TestWaitingThings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, key, trust := b.left()
	require.Empty(t, b.waiting().Things, "its time has not come")
	b.exec("UPDATE ledger SET try_at = now()")
	got := b.waiting().Things
	require.Len(t, got, 1)
	require.Equal(t, key.Name, got[0].Name)
	require.Equal(t, compute.ThingWaiting, got[0].State)
	require.Equal(t, "no credential", got[0].Refused)
	require.Equal(t, owner, got[0].Credential)

	key.Refused = "still none"
	require.NoError(t, b.Reaped(b.ctx, record.ReapedInput{Waiting: []compute.Thing{key}}))
	require.Empty(t, b.waiting().Things)
	var wait float64
	require.NoError(t, b.Pool.QueryRow(b.ctx, "SELECT extract(epoch FROM try_at - now()) FROM ledger WHERE kind = 'key_secret'").Scan(&wait))
	require.InDelta(t, 30, wait, 5, "longer than the first time")

	offer := compute.Credential{ID: uuid.New(), ProjectID: owner.ProjectID, UserID: "u2"}
	for _, id := range []uuid.UUID{offer.ID, uuid.New()} {
		_, err := b.q.OfferCredential(b.ctx, schema.OfferCredentialParams{ID: id, ProjectID: offer.ProjectID, UserID: offer.UserID, Sealed: []byte("x")})
		require.NoError(t, err)
	}
	all := b.waiting()
	require.Equal(t, []compute.Credential{offer}, all.Offers, "one is enough")
	require.Len(t, all.Things, 1)
	require.Equal(t, "still none", all.Things[0].Refused)
	require.NoError(t, b.Reaped(b.ctx, record.ReapedInput{Released: all.Things, Offers: all.Offers}))
	require.Empty(t, b.waiting().Offers)

	b.exec("UPDATE ledger SET try_at = now()")
	all = b.waiting()
	require.Len(t, all.Things, 1)
	require.Equal(t, trust.Name, all.Things[0].Name)
	require.NoError(t, b.Reaped(b.ctx, record.ReapedInput{Released: all.Things}))
	require.Empty(t, b.waiting())
}

// What an operation is at is its own business.
func TestWaitingThingsOfABusyServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.left()
	b.exec("UPDATE ledger SET try_at = now()")
	b.exec("UPDATE servers SET current_operation = 'req-1'")
	require.Empty(t, b.waiting().Things)
}

func TestTheBooksTellWhereToLook(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in, _, _ := b.left()
	delegated := compute.DelegatedCredential(in.Server, owner.ProjectID, owner.UserID)
	require.NoError(t, b.q.SaveTrust(b.ctx, schema.SaveTrustParams{ID: delegated.ID, ProjectID: delegated.ProjectID, UserID: delegated.UserID, TrustID: new(string)}))
	other := b.server(compute.OpCreate)
	deployed := thing(other, compute.ThingKeySecret, "deployed")
	deployed.Credential = compute.DeploymentCredential()
	require.NoError(t, b.Open(b.ctx, record.OpenInput{OperationInput: other, Event: "e", Things: []compute.Thing{
		deployed, thing(other, compute.ThingTPMState, other.Server.String()),
	}}))
	book, err := b.Ledger(b.ctx, record.LedgerInput{})
	require.NoError(t, err)
	owners := compute.Access{Project: owner.ProjectID, Credentials: []compute.Credential{compute.MemberCredential(owner.ProjectID), delegated}}
	require.Equal(t, []compute.Access{
		{Project: compute.DeploymentProject, Credentials: []compute.Credential{compute.DeploymentCredential()}}, owners,
	}, book.Keys)
	require.Empty(t, book.Images)
	require.Equal(t, []compute.Access{owners}, book.Objects)
	for _, e := range book.Things {
		if e.Kind == compute.ThingTrust {
			require.Equal(t, "kept", e.Refused)
			require.Equal(t, compute.ThingWaiting, e.State)
		}
	}
}
