package record_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// legacy is a server of the legacy implementation: two disks that nothing is said
// of, and one key.
func (b *bundle) legacy(kind compute.OperationKind) (durable.OperationInput, compute.SecretID) {
	b.t.Helper()
	in, key := b.server(kind), compute.SecretID{UUID: uuid.New()}
	b.exec(`UPDATE server_disks SET encrypted = false, encryption_format = '' WHERE server_id = $1`, in.Server)
	b.exec(`INSERT INTO server_disks (id, server_id, role, device_name, size_mb) VALUES ($1, $2, 'swap', '/dev/vdb', 1)`, uuid.New(), in.Server)
	b.exec(`UPDATE servers SET ephemeral_key_uuid = $2 WHERE id = $1`, in.Server, key)
	return in, key
}

// moved requires that the disks have the key and the server has it no more.
func (b *bundle) moved(in durable.OperationInput, key compute.SecretID) {
	b.t.Helper()
	require.Nil(b.t, b.row(in).EphemeralKey)
	s, err := record.LoadServer(b.ctx, b.q, in.Server)
	require.NoError(b.t, err)
	require.Len(b.t, s.Disks, 2)
	for _, d := range s.Disks {
		require.True(b.t, d.Encrypted)
		require.Equal(b.t, key, *d.Secret)
		require.Equal(b.t, compute.FormatPlain, d.Format)
		require.Equal(b.t, map[string]string{
			"format": "plain", "key-size": "512", "hash-alg": "ripemd160", "cipher-alg": "aes-256", "cipher-mode": "xts", "ivgen-alg": "plain64",
		}, d.EncryptionOptions)
	}
}

// untouched requires that the server has the key, and its disks have none.
func (b *bundle) untouched(in durable.OperationInput, key compute.SecretID) {
	b.t.Helper()
	require.Equal(b.t, key, *b.row(in).EphemeralKey)
	s, err := record.LoadServer(b.ctx, b.q, in.Server)
	require.NoError(b.t, err)
	for _, d := range s.Disks {
		require.False(b.t, d.Encrypted)
		require.Nil(b.t, d.Secret)
	}
}

// EE-35: the key goes to the disks, once, also when many move it at once.
func TestMoveLegacyKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in, key := b.legacy(compute.OpStop)
	other, _ := b.legacy(compute.OpStop)
	left, err := b.Leftovers(b.ctx)
	require.NoError(t, err)
	require.Len(t, left, 2)
	require.Equal(t, in.Server, left[0].Server)
	require.Empty(t, left[0].Why)
	var many int
	results := make(chan bool, 8)
	for _, err := range atOnce(8, func(int) error {
		moved, err := b.MoveLegacyKey(b.ctx, in.Server)
		results <- moved
		return err
	}) {
		require.NoError(t, err)
		if <-results {
			many++
		}
	}
	require.Equal(t, 1, many)
	b.moved(in, key)
	before := b.dump("servers", "server_disks")
	moved, err := b.MoveLegacyKey(b.ctx, in.Server)
	require.NoError(t, err)
	require.False(t, moved)
	require.Equal(t, before, b.dump("servers", "server_disks"))
	left, err = b.Leftovers(b.ctx)
	require.NoError(t, err)
	require.Equal(t, []record.Leftover{{Server: other.Server, Number: left[0].Number}}, left)
}

// EE-35: the key is cleared only with the disks saved. A move whose connection is
// cut between the disks and the server leaves everything as it was; so does one
// that the database refuses at its end.
func TestMoveLegacyKeyCutOff(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in, key := b.legacy(compute.OpStop)
	swap := b.lastDisk(in)
	tx, err := b.Pool.Begin(b.ctx)
	require.NoError(t, err)
	_, err = tx.Exec(b.ctx, `SELECT 1 FROM server_disks WHERE id = $1 FOR UPDATE`, swap)
	require.NoError(t, err)
	failed := make(chan error, 1)
	go func() {
		_, err := b.MoveLegacyKey(b.ctx, in.Server)
		failed <- err
	}()
	require.Eventually(t, func() bool { // it waits for the second disk: the first is written
		var cut bool
		err := b.Pool.QueryRow(b.ctx, `SELECT coalesce(bool_or(pg_terminate_backend(pid)), false) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&cut)
		return err == nil && cut
	}, 30*time.Second, 10*time.Millisecond)
	require.Error(t, <-failed)
	require.NoError(t, tx.Rollback(b.ctx))
	b.untouched(in, key)

	b.exec(`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`)
	b.exec(`CREATE TRIGGER no BEFORE UPDATE OF ephemeral_key_uuid ON servers FOR EACH ROW EXECUTE FUNCTION no()`)
	_, err = b.MoveLegacyKey(b.ctx, in.Server)
	require.ErrorContains(t, err, "no")
	b.untouched(in, key)
	b.exec(`DROP TRIGGER no ON servers`)

	// An older release may have been killed with half of the disks saved.
	b.exec(`UPDATE server_disks SET encrypted = true, encryption_format = 'plain', encryption_secret_uuid = $2 WHERE id = $1`, swap, key)
	moved, err := b.MoveLegacyKey(b.ctx, in.Server)
	require.NoError(t, err)
	require.True(t, moved)
	b.moved(in, key)
}

func (b *bundle) lastDisk(in durable.OperationInput) compute.DiskID {
	b.t.Helper()
	disks, err := b.q.GetServerDisks(b.ctx, in.Server)
	require.NoError(b.t, err)
	return disks[len(disks)-1].ID
}

// A server whose disks contradict its key is left alone, and said why.
func TestMoveLegacyKeyOfADiskWithAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in, _ := b.legacy(compute.OpStart)
	b.exec(`UPDATE server_disks SET encrypted = true, encryption_format = 'luks', encryption_secret_uuid = $2 WHERE id = $1`, b.disk(in), uuid.New())
	before := b.dump("servers", "server_disks")
	_, err := b.MoveLegacyKey(b.ctx, in.Server)
	require.True(t, compute.Is(err, compute.Conflict), "%v", err)
	_, err = b.Begin(b.ctx, in)
	require.NoError(t, err, "an operation goes on with what there is")
	require.Equal(t, before, b.dump("servers", "server_disks"))
	left, err := b.Leftovers(b.ctx)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Contains(t, left[0].Why, "a key of its own")
	b.exec(`UPDATE servers SET deleted_at = now() WHERE id = $1`, in.Server)
	left, err = b.Leftovers(b.ctx)
	require.NoError(t, err)
	require.Empty(t, left, "a deleted server has no use for a key")
}

// EE-35: what boots a server moves its key first; what does not leaves it.
func TestBeginMovesLegacyKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for kind, moves := range map[compute.OperationKind]bool{compute.OpCreate: true, compute.OpStart: true, compute.OpStop: false, compute.OpDelete: false} {
		in, key := b.legacy(kind)
		for range 2 {
			got, err := b.Begin(b.ctx, in)
			require.NoError(t, err)
			require.Equal(t, moves, got.Server.Disks[0].Encrypted, kind)
		}
		if moves {
			b.moved(in, key)
		} else {
			b.untouched(in, key)
		}
	}
	in, key := b.legacy(compute.OpStop)
	in = b.supersede(in, compute.OpRebuild, compute.Rebuild{})
	_, err := b.Begin(b.ctx, in)
	require.NoError(t, err)
	b.moved(in, key)

	// The host's own options, where they are not the default.
	b.Legacy = compute.LegacyEncryption{Cipher: "aes-cbc-essiv:sha256", KeySize: 256}
	in, _ = b.legacy(compute.OpStart)
	got, err := b.Begin(b.ctx, in)
	require.NoError(t, err)
	require.Equal(t, "essiv:sha256", got.Server.Disks[0].EncryptionOptions["ivgen-alg"])
	b.Legacy.Cipher = "rot13"
	in, _ = b.legacy(compute.OpStart)
	_, err = b.Begin(b.ctx, in)
	var refused *compute.Error
	require.True(t, errors.As(err, &refused) && refused.Kind == compute.Invalid, "%v", err)
}
