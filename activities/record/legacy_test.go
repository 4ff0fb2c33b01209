package record_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/durable"
)

// legacy is a server of the legacy implementation.
func (b *bundle) legacy(kind compute.OperationKind) durable.OperationInput {
	b.t.Helper()
	in := b.server(kind)
	b.Exec(`UPDATE server_disks SET encrypted = false, encryption_format = '' WHERE server_id = $1`, in.Server)
	b.Exec(`UPDATE servers SET ephemeral_key_uuid = $2 WHERE id = $1`, in.Server, uuid.New())
	return in
}

// A7, EE-35: every kind that boots a server moves its key first, and a delete, so that the
// key is on the ledger and goes with the server (EE-48); the others leave it.
func TestA7EveryKindThatBootsMovesLegacyKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// Listed again: without this, a kind whose boot was not declared would pass.
	boots := []compute.OperationKind{
		compute.OpCreate, compute.OpStart, compute.OpReboot, compute.OpRebuild, compute.OpRescue, compute.OpUnrescue, compute.OpUnshelve,
		compute.OpResize, compute.OpMigrate, compute.OpRevertResize, compute.OpEvacuate,
	}
	for _, action := range compute.Actions {
		if action.InRequest {
			continue
		}
		require.Equal(t, slices.Contains(boots, action.Kind), action.Boots, action.Kind)
		in := b.supersede(b.legacy(compute.OpStop), action.Kind, struct{}{})
		for range 2 {
			got, err := b.Begin(b.ctx, in)
			require.NoError(t, err)
			moves := action.Boots || action.Kind == compute.OpDelete
			require.Equal(t, moves, got.Server.Disks[0].Encrypted, action.Kind)
			require.Equal(t, moves, b.row(in).EphemeralKey == nil, action.Kind)
			rows := b.CountRows("SELECT count(*) FROM ledger WHERE kind = 'key_secret' AND state = 'present' AND owner_id = $1", in.Server)
			require.Equal(t, moves, rows == 1, action.Kind)
		}
	}
}

// EE-35: a key is moved as the host's own options say, where they are not the default.
func TestBeginMovesLegacyKeysByTheHostsOptions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Legacy = compute.DMCrypt{Cipher: "aes-cbc-essiv:sha256", KeySize: 256, Hash: "sha256"}
	got, err := b.Begin(b.ctx, b.legacy(compute.OpStart))
	require.NoError(t, err)
	require.Equal(t, "essiv:sha256", got.Server.Disks[0].EncryptionOptions["ivgen-alg"])
	b.Legacy.Cipher = "rot13"
	_, err = b.Begin(b.ctx, b.legacy(compute.OpStart))
	require.True(t, compute.Is(err, compute.Invalid), "%v", err)
}

// A disk that has another key is the operator's matter: an operation goes on with what
// there is.
func TestBeginLeavesALegacyKeyThatCannotMove(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.legacy(compute.OpStart)
	b.Exec(`UPDATE server_disks SET encrypted = true, encryption_format = 'luks', encryption_secret_uuid = $2 WHERE server_id = $1`, in.Server, uuid.New())
	before := b.Dump("servers", "server_disks")
	_, err := b.Begin(b.ctx, in)
	require.NoError(t, err)
	require.Equal(t, before, b.Dump("servers", "server_disks"))
}
