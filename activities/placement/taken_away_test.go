package placement_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"strongroom/activities/placement"
	"strongroom/compute"
	"strongroom/schema"
)

// A host that is disabled, or revoked (H1), when a claim has just chosen it is claimed no more: the
// drain that disabled it counts its servers after that.
func TestAHostThatIsTakenAwayMeanwhileIsNotClaimed(t *testing.T) {
	t.Parallel()
	for name, query := range map[string]string{
		"disabled": "UPDATE hosts SET disabled = true WHERE id = $1",
		"revoked":  "UPDATE host_certificates SET revoked_at = now() WHERE host_id = $1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			host := b.Host("h1", 64, 1<<20)
			require.NoError(t, b.Q.AddHostCertificate(b.Ctx, schema.AddHostCertificateParams{
				Serial: "first", HostID: host, HostName: "h1", SealingKey: []byte{}, NotAfter: time.Now().Add(time.Hour),
			}))
			in := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
			b.refusedAfter(host, in, func(tx pgx.Tx) {
				_, err := tx.Exec(b.Ctx, query, host)
				require.NoError(t, err)
			})
		})
	}
}

// refusedAfter asks for a claim while somebody has the lock of its host and changes what the claim has read of it. The host does not take it any more.
func (b *bundle) refusedAfter(host compute.HostID, in placement.ClaimInput, change func(tx pgx.Tx)) {
	b.t.Helper()
	tx, err := b.DB.Begin(b.Ctx)
	require.NoError(b.t, err)
	defer func() { _ = tx.Rollback(b.Ctx) }()
	_, err = b.Q.WithTx(tx).LockHost(b.Ctx, host)
	require.NoError(b.t, err)
	claimed := make(chan error)
	go func() {
		_, err := b.Claim(b.Ctx, in)
		claimed <- err
	}()
	require.Eventually(b.t, func() bool {
		return b.CountRows("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%LockHost%'") > 0
	}, 4*time.Second, time.Millisecond)
	change(tx)
	require.NoError(b.t, tx.Commit(b.Ctx))
	require.Equal(b.t, compute.NoHost, compute.KindOf(<-claimed))
	require.Zero(b.t, b.claims(in.OperationInput))
}
