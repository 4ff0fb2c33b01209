package record_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
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
