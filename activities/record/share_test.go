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

// SH-18, SH-30: an operation begins with the address that the server's host has told last: shares of NFS let that in.
func TestSH18TheAddressOfAHost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpStart)
	for _, protocol := range []string{compute.NFSShare, compute.CephFSShare} {
		require.NoError(t, b.Q.AttachShare(b.ctx, schema.AttachShareParams{
			ID: uuid.New(), ServerID: in.Server, ShareID: compute.ShareID{UUID: uuid.New()}, Status: compute.ShareInactive, Tag: protocol, ShareProto: protocol, ExportLocation: []byte("sealed"),
		}))
	}
	b.Exec(`UPDATE servers SET host_id = $1 WHERE id = $2`, b.Host("h1", 8, 8192), in.Server)
	b.Exec(`UPDATE hosts SET share_address = '198.51.100.7'`)
	begun, err := b.Begin(b.ctx, in)
	require.NoError(t, err)
	require.Equal(t, "198.51.100.7", begun.Server.Shares[0].Address)
	require.Empty(t, begun.Server.Shares[1].Address)
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

// SH-32: nor does one whose operation lost the server to a reset of its state: the share is in error once that is undone, or
// was found not to have begun. An operation that has the server meanwhile, and is about the same share, says itself
// what becomes of it, and a share that another one is done with is left as it is.
func TestSH32AResetLeavesNoShareThatAttaches(t *testing.T) {
	t.Parallel()
	attach, detach := compute.OpShareAttach, compute.OpShareDetach
	for name, c := range map[string]struct {
		kind     compute.OperationKind
		began    bool
		was      compute.ShareStatus   // when the operation is settled
		other    compute.OperationKind // has the server by then
		another  bool                  // and is about another share
		becoming compute.ShareStatus
	}{
		"attach":                         {kind: attach, began: true, was: compute.ShareAttaching, becoming: compute.ShareError},
		"attach that never began":        {kind: attach, was: compute.ShareAttaching, becoming: compute.ShareError},
		"detach":                         {kind: detach, began: true, was: compute.ShareDetaching, becoming: compute.ShareError},
		"detach that never began":        {kind: detach, was: compute.ShareDetaching, becoming: compute.ShareError},
		"attach, then a start":           {kind: attach, began: true, was: compute.ShareAttaching, other: compute.OpStart, becoming: compute.ShareError},
		"attach, then another's":         {kind: attach, began: true, was: compute.ShareAttaching, other: attach, another: true, becoming: compute.ShareError},
		"attach, then detach and attach": {kind: attach, began: true, was: compute.ShareAttaching, other: attach, becoming: compute.ShareAttaching},
		"detach twice":                   {kind: detach, began: true, was: compute.ShareDetaching, other: detach, becoming: compute.ShareDetaching},
		"attach, attached since":         {kind: attach, began: true, was: compute.ShareInactive, becoming: compute.ShareInactive},
		"detach, then a delete":          {kind: detach, began: true, was: compute.ShareDetaching, other: compute.OpDelete, becoming: compute.ShareDetaching},
		"delete":                         {kind: compute.OpDelete, began: true, was: compute.ShareDetaching, becoming: compute.ShareError},
		"delete, then a detach":          {kind: compute.OpDelete, began: true, was: compute.ShareDetaching, other: detach, becoming: compute.ShareDetaching},
		"delete, then another":           {kind: compute.OpDelete, began: true, was: compute.ShareDetaching, other: compute.OpDelete, becoming: compute.ShareDetaching},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			server := b.server(compute.OpCreate)
			id := compute.ShareID{UUID: uuid.New()}
			require.NoError(t, b.Q.AttachShare(b.ctx, schema.AttachShareParams{
				ID: uuid.New(), ServerID: server.Server, ShareID: id, Status: c.was, Tag: "one", ShareProto: "LOCAL", ExportLocation: []byte("sealed"),
			}))
			in := b.supersede(server, c.kind, compute.ShareArguments{Share: id})
			if c.began {
				_, err := b.Begin(b.ctx, in)
				require.NoError(t, err)
			}
			rows, err := b.Q.ResetServerState(b.ctx, schema.ResetServerStateParams{ID: in.Server, VMState: compute.VMError})
			require.NoError(t, err)
			require.EqualValues(t, 1, rows)
			if about := (compute.ShareArguments{Share: id}); c.other != "" {
				if c.another {
					about.Share.UUID = uuid.New()
				}
				b.supersede(in, c.other, about)
			}
			for range 2 { // and again, of no effect
				if c.began {
					require.NoError(t, b.Settle(b.ctx, record.SettleInput{
						OperationInput: in, State: compute.OperationCancelled, VMState: compute.VMStopped,
						Shares: []record.ShareChange{{Share: id, Event: compute.ShareRefused}},
					}))
				} else {
					begun, err := b.Begin(b.ctx, in)
					require.NoError(t, err)
					require.True(t, begun.Superseded)
				}
				left, err := b.Q.ServerShares(b.ctx, in.Server)
				require.NoError(t, err)
				require.Equal(t, c.becoming, left[0].Status)
				require.Equal(t, compute.OperationCancelled, b.op(in).State)
			}
		})
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
