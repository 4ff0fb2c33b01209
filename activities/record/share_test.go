package record_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// SH-07, SH-27: what a server has of its shares is written with the end of its operation, as the chart
// has it; a share or a tag is a server's once, and no status is another than the five.
func TestSH27SharesOfAServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpShareAttach)
	attach := func(tag string, status compute.ShareStatus) (compute.ShareID, error) {
		id := compute.ShareID{UUID: uuid.New()}
		return id, b.Q.AttachShare(b.ctx, schema.AttachShareParams{
			ID: uuid.New(), ServerID: in.Server, ShareID: id, Status: status, Tag: tag, ShareProto: "LOCAL", ExportLocation: []byte("sealed"),
		})
	}
	one, err := attach("one", compute.ShareAttaching)
	require.NoError(t, err)
	two, err := attach("two", compute.ShareActive)
	require.NoError(t, err)
	_, err = attach("one", compute.ShareAttaching)
	require.ErrorContains(t, err, "server_shares_tag")
	_, err = attach("three", "asleep")
	require.ErrorContains(t, err, "server_shares_status")

	_, err = b.DB.Exec(b.ctx, `UPDATE operations SET arguments = $1 WHERE id = $2`, `{"share_id": "`+one.String()+`"}`, in.Operation)
	require.NoError(t, err)
	begun, err := b.Begin(b.ctx, in)
	require.NoError(t, err)
	require.Equal(t, []compute.ShareID{one, two}, []compute.ShareID{begun.Server.Shares[0].Share, begun.Server.Shares[1].Share})
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{
		OperationInput: in, State: compute.OperationSucceeded, VMState: compute.VMStopped,
		Shares: []record.ShareChange{{Share: one, Event: compute.ShareGranted}, {Share: two, Gone: true}},
	}))
	left, err := b.Q.ServerShares(b.ctx, in.Server)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, compute.ShareInactive, left[0].Status)
}

// SH-32: an operation that ends without a word about its share, since it could not begin or was terminated, leaves
// none that attaches or detaches for ever.
func TestSH32NoShareAttachesForEver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for kind, status := range map[compute.OperationKind]compute.ShareStatus{compute.OpShareAttach: compute.ShareAttaching, compute.OpShareDetach: compute.ShareDetaching} {
		server := b.server(compute.OpCreate)
		id, other := compute.ShareID{UUID: uuid.New()}, compute.ShareID{UUID: uuid.New()}
		for tag, share := range map[string]compute.ShareID{"one": id, "two": other} {
			require.NoError(t, b.Q.AttachShare(b.ctx, schema.AttachShareParams{
				ID: uuid.New(), ServerID: server.Server, ShareID: share, Status: status, Tag: tag, ShareProto: "LOCAL", ExportLocation: []byte("sealed"),
			}))
		}
		in := b.supersede(server, kind, compute.ShareArguments{Share: id})
		require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationFailed, VMState: compute.VMError, Message: "it was terminated"}))
		left, err := b.Q.ServerShares(b.ctx, in.Server)
		require.NoError(t, err)
		require.Len(t, left, 2)
		for _, row := range left {
			want := status
			if row.ShareID == id {
				want = compute.ShareError
			}
			require.Equal(t, want, row.Status, kind)
		}
	}
}

// SH-09: what an operation sees of a share, looks have not missed any more: for all servers of its host, and no other. A row
// that another transaction has locked is not waited for.
func TestSH09AnOperationSeesAShare(t *testing.T) {
	t.Parallel()
	b := setup(t)
	here, elsewhere := b.Host("h1", 8, 8192), b.Host("h2", 8, 8192)
	id := compute.ShareID{UUID: uuid.New()}
	attached := func(kind compute.OperationKind, host compute.HostID, status compute.ShareStatus) durable.OperationInput {
		in := b.server(kind)
		b.Exec("UPDATE servers SET host_id = $1 WHERE id = $2", host, in.Server)
		require.NoError(t, b.Q.AttachShare(b.ctx, schema.AttachShareParams{
			ID: uuid.New(), ServerID: in.Server, ShareID: id, Status: status, Tag: "one", ShareProto: "LOCAL", ExportLocation: []byte("sealed"),
		}))
		return in
	}
	missed := func() (servers []compute.ServerID) {
		rows, err := b.DB.Query(b.ctx, "SELECT server_id FROM server_shares WHERE missed_at IS NOT NULL OR held_at IS NOT NULL")
		require.NoError(t, err)
		servers, err = pgx.CollectRows(rows, pgx.RowTo[compute.ServerID])
		require.NoError(t, err)
		return servers
	}
	in, beside, other := attached(compute.OpShareAttach, here, compute.ShareAttaching), attached(compute.OpCreate, here, compute.ShareActive),
		attached(compute.OpCreate, elsewhere, compute.ShareActive)
	end := func(kind compute.OperationKind, event compute.ShareEvent) {
		b.Exec("UPDATE server_shares SET missed_at = now(), held_at = now()")
		in = b.supersede(in, kind, compute.ShareArguments{Share: id})
		require.NoError(t, b.Settle(b.ctx, record.SettleInput{
			OperationInput: in, State: compute.OperationSucceeded, VMState: compute.VMStopped, Shares: []record.ShareChange{{Share: id, Event: event}},
		}))
	}
	end(compute.OpShareAttach, compute.ShareGranted)
	require.Equal(t, []compute.ServerID{other.Server}, missed())
	end(compute.OpStart, compute.ShareMounted)
	require.Equal(t, []compute.ServerID{other.Server}, missed())
	end(compute.OpStop, compute.ShareUnmounted)
	require.ElementsMatch(t, []compute.ServerID{beside.Server, other.Server}, missed(), "a stop has not seen it")

	tx, err := b.DB.Begin(b.ctx)
	require.NoError(t, err)
	_, err = tx.Exec(b.ctx, "SELECT FROM server_shares WHERE server_id = $1 FOR UPDATE", beside.Server)
	require.NoError(t, err)
	b.Exec("UPDATE server_shares SET status = 'error', lost = 'gone', lost_at = now() WHERE server_id = $1", in.Server)
	in = b.supersede(in, compute.OpStart, struct{}{})
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{
		OperationInput: in, State: compute.OperationSucceeded, VMState: compute.VMActive, Shares: []record.ShareChange{{Share: id, Event: compute.ShareMounted}},
	}))
	require.NoError(t, tx.Rollback(b.ctx))
	left, err := b.Q.ServerShares(b.ctx, in.Server)
	require.NoError(t, err)
	require.Equal(t, compute.ShareActive, left[0].Status)
	require.Empty(t, left[0].Lost, "it is there again")
	require.Nil(t, left[0].LostAt)
}

// SH-09: why a share was taken away is told until a start brings it back, also when that fails.
func TestSH09WhyAShareWasTakenAwayStays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	id := compute.ShareID{UUID: uuid.New()}
	require.NoError(t, b.Q.AttachShare(b.ctx, schema.AttachShareParams{
		ID: uuid.New(), ServerID: in.Server, ShareID: id, Status: compute.ShareError, Tag: "one", ShareProto: "LOCAL", ExportLocation: []byte("sealed"),
	}))
	b.Exec("UPDATE server_shares SET lost = $1, lost_at = now()", compute.ShareGone)
	in = b.supersede(in, compute.OpReboot, struct{}{})
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{
		OperationInput: in, State: compute.OperationFailed, VMState: compute.VMError, Message: "no", Shares: []record.ShareChange{{Share: id, Event: compute.ShareNotMounted}},
	}))
	left, err := b.Q.ServerShares(b.ctx, in.Server)
	require.NoError(t, err)
	require.Equal(t, []any{compute.ShareError, compute.ShareGone}, []any{left[0].Status, left[0].Lost})
	require.NotNil(t, left[0].LostAt)
}
