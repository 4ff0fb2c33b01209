package legacy_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/legacy"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// bundle is a database of its own with servers of the legacy implementation.
type bundle struct {
	*schematest.Fixture
	legacy.Keys
	t *testing.T
}

func setup(t *testing.T) *bundle {
	t.Helper()
	f := schematest.NewFixture(t)
	return &bundle{Fixture: f, Keys: legacy.Keys{Pool: f.DB}, t: t}
}

// legacy is a server of the legacy implementation: two disks that nothing is said
// of, and one key.
func (b *bundle) legacy(kind compute.OperationKind) (compute.Operation, compute.SecretID) {
	b.t.Helper()
	in, key := b.Server(kind), compute.SecretID{UUID: uuid.New()}
	b.Exec(`UPDATE server_disks SET encrypted = false, encryption_format = '' WHERE server_id = $1`, in.ServerID)
	b.Exec(`INSERT INTO server_disks (id, server_id, role, device_name, size_mb) VALUES ($1, $2, 'swap', '/dev/vdb', 1)`, uuid.New(), in.ServerID)
	b.Exec(`UPDATE servers SET ephemeral_key_uuid = $2 WHERE id = $1`, in.ServerID, key)
	return in, key
}

// moved requires that the disks have the key and the server has it no more.
func (b *bundle) moved(in compute.Operation, key compute.SecretID) {
	b.t.Helper()
	require.Nil(b.t, b.row(in).EphemeralKey)
	s, err := schema.LoadServer(b.Ctx, b.Q, in.ServerID)
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
func (b *bundle) untouched(in compute.Operation, key compute.SecretID) {
	b.t.Helper()
	require.Equal(b.t, key, *b.row(in).EphemeralKey)
	s, err := schema.LoadServer(b.Ctx, b.Q, in.ServerID)
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
	left, err := b.Leftovers(b.Ctx)
	require.NoError(t, err)
	require.Len(t, left, 2)
	require.Equal(t, in.ServerID, left[0].Server)
	require.Empty(t, left[0].Why)
	var many int
	results := make(chan bool, 8)
	for _, err := range schematest.AtOnce(8, func(int) error {
		moved, err := b.Move(b.Ctx, in.ServerID)
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
	before := b.Dump("servers", "server_disks")
	moved, err := b.Move(b.Ctx, in.ServerID)
	require.NoError(t, err)
	require.False(t, moved)
	require.Equal(t, before, b.Dump("servers", "server_disks"))
	left, err = b.Leftovers(b.Ctx)
	require.NoError(t, err)
	require.Equal(t, []legacy.Leftover{{Server: other.ServerID, Number: left[0].Number}}, left)
}

// EE-35: the key is cleared only with the disks saved. A move whose connection is
// cut between the disks and the server leaves everything as it was; so does one
// that the database refuses at its end.
func TestMoveLegacyKeyCutOff(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in, key := b.legacy(compute.OpStop)
	swap := b.lastDisk(in)
	tx, err := b.DB.Begin(b.Ctx)
	require.NoError(t, err)
	_, err = tx.Exec(b.Ctx, `SELECT 1 FROM server_disks WHERE id = $1 FOR UPDATE`, swap)
	require.NoError(t, err)
	failed := make(chan error, 1)
	go func() {
		_, err := b.Move(b.Ctx, in.ServerID)
		failed <- err
	}()
	require.Eventually(t, func() bool { // it waits for the second disk: the first is written
		var cut bool
		err := b.DB.QueryRow(b.Ctx, `SELECT coalesce(bool_or(pg_terminate_backend(pid)), false) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&cut)
		return err == nil && cut
	}, time.Minute, 10*time.Millisecond)
	require.Error(t, <-failed)
	require.NoError(t, tx.Rollback(b.Ctx))
	b.untouched(in, key)

	b.Exec(`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`)
	b.Exec(`CREATE TRIGGER no BEFORE UPDATE OF ephemeral_key_uuid ON servers FOR EACH ROW EXECUTE FUNCTION no()`)
	_, err = b.Move(b.Ctx, in.ServerID)
	require.ErrorContains(t, err, "no")
	b.untouched(in, key)
	b.Exec(`DROP TRIGGER no ON servers`)

	// An older release may have been killed with half of the disks saved.
	b.Exec(`UPDATE server_disks SET encrypted = true, encryption_format = 'plain', encryption_secret_uuid = $2 WHERE id = $1`, swap, key)
	moved, err := b.Move(b.Ctx, in.ServerID)
	require.NoError(t, err)
	require.True(t, moved)
	b.moved(in, key)
}

func (b *bundle) row(in compute.Operation) schema.Server {
	b.t.Helper()
	row, err := b.Q.GetServer(b.Ctx, in.ServerID)
	require.NoError(b.t, err)
	return row
}

func (b *bundle) lastDisk(in compute.Operation) compute.DiskID {
	b.t.Helper()
	disks, err := b.Q.GetServerDisks(b.Ctx, in.ServerID)
	require.NoError(b.t, err)
	return disks[len(disks)-1].ID
}

// A server whose disks contradict its key is left alone, and said why.
func TestMoveLegacyKeyOfADiskWithAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in, _ := b.legacy(compute.OpStart)
	b.Exec(`UPDATE server_disks SET encrypted = true, encryption_format = 'luks', encryption_secret_uuid = $2 WHERE id = $1`, b.lastDisk(in), uuid.New())
	before := b.Dump("servers", "server_disks")
	_, err := b.Move(b.Ctx, in.ServerID)
	require.True(t, compute.Is(err, compute.Conflict), "%v", err)
	require.Equal(t, before, b.Dump("servers", "server_disks"))
	left, err := b.Leftovers(b.Ctx)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Contains(t, left[0].Why, "a key of its own")
	b.Exec(`UPDATE servers SET deleted_at = now() WHERE id = $1`, in.ServerID)
	left, err = b.Leftovers(b.Ctx)
	require.NoError(t, err)
	require.Empty(t, left, "a deleted server has no use for a key")
}
