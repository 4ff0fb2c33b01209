package operation_test

import (
	"log/slog"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/credential"
	"strongroom/activities/operation"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/seal"
)

// SH-08: once a key was put on top of credentials.key, the watch seals with it where shares are exported, so that
// the old one can go and every attachment still tells its location. What no key opens is logged once and
// holds up nothing else, and no pass touches what the present key sealed.
func TestSH08ExportLocationsOutliveTheKeyThatSealedThem(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := seal.NewKey(), seal.NewKey()
	boxOf := func(keys string) *seal.Box {
		box, err := seal.Parse([]byte(keys))
		require.NoError(t, err)
		return box
	}
	server := b.server()
	q := schema.New(b.Pool)
	attach := func(box *seal.Box, tag string) {
		row := schema.ServerShare{ID: uuid.New(), ServerID: server, ShareID: compute.ShareID{UUID: uuid.New()}}
		require.NoError(t, q.AttachShare(t.Context(), schema.AttachShareParams{
			ID: row.ID, ServerID: server, ShareID: row.ShareID, Status: compute.ShareInactive, Tag: tag, ShareProto: "CEPHFS",
			ExportLocation: box.Seal(row.SealedFor(), []byte("10.0.0.5:/"+tag)),
		}))
	}
	attachments := func() map[string]schema.ServerShare {
		rows, err := q.ServerShares(t.Context(), server)
		require.NoError(t, err)
		byTag := map[string]schema.ServerShare{}
		for _, row := range rows {
			byTag[row.Tag] = row
		}
		return byTag
	}
	log := &messages{Handler: slog.DiscardHandler, texts: make(chan string, 100)}
	rotated := boxOf(second + first)
	b.Seals = &credential.Store{Pool: b.Pool, Box: rotated, Logger: slog.New(log)}
	watch := func() {
		_, err := b.watch(operation.WatchInput{Limit: quick, Every: quick}, nil)
		require.NoError(t, err)
	}

	attach(boxOf(first), "old")
	attach(boxOf(seal.NewKey()), "lost")
	attach(rotated, "new")
	before := attachments()
	watch()
	attach(boxOf(first), "late") // by an api that runs with the old file
	watch()
	after := attachments()
	for _, tag := range []string{"old", "late", "new"} {
		location, err := boxOf(second).Unseal(after[tag].SealedFor(), after[tag].ExportLocation)
		require.NoError(t, err, tag)
		require.Equal(t, "10.0.0.5:/"+tag, string(location))
	}
	require.Equal(t, before["new"], after["new"])
	require.Equal(t, before["lost"], after["lost"])
	require.Equal(t, before["old"].UpdatedAt, after["old"].UpdatedAt, "it is no change of the attachment")
	close(log.texts)
	said := map[string]int{}
	for text := range log.texts {
		said[text]++
	}
	require.Equal(t, map[string]int{
		"where a share is exported cannot be opened any more": 1, "export locations of shares were sealed anew, with the first key of credentials.key": 2,
	}, said)
}

// What passphrases are compared with (H1) outlives the key that sealed it, too.
func TestH1SumsOutliveTheKeyThatSealedThem(t *testing.T) {
	t.Parallel()
	b := setup(t)
	boxOf := func(keys string) *seal.Box {
		box, err := seal.Parse([]byte(keys))
		require.NoError(t, err)
		return box
	}
	first, second := seal.NewKey(), seal.NewKey()
	server, old, lost := b.server(), compute.SecretID{UUID: uuid.New()}, compute.SecretID{UUID: uuid.New()}
	q := schema.New(b.Pool)
	for id, by := range map[compute.SecretID]*seal.Box{old: boxOf(first), lost: boxOf(seal.NewKey())} {
		require.NoError(t, q.PutSecretSum(t.Context(), schema.PutSecretSumParams{ServerID: server, SecretID: id, Sealed: by.SealSum(server, id, []byte("a sum"))}))
	}
	sealed := func(id compute.SecretID) []byte {
		t.Helper()
		row, err := q.GetSecretSum(t.Context(), schema.GetSecretSumParams{ServerID: server, SecretID: id})
		require.NoError(t, err)
		return row
	}
	wasLost := sealed(lost)
	store := &credential.Store{Pool: b.Pool, Box: boxOf(second + first), Logger: slog.New(slog.DiscardHandler)}
	require.NoError(t, store.Reseal(t.Context()))
	sum, ok := boxOf(second).UnsealSum(server, old, sealed(old))
	require.True(t, ok)
	require.Equal(t, "a sum", string(sum))
	require.Equal(t, wasLost, sealed(lost))
	anew := sealed(old)
	require.NoError(t, store.Reseal(t.Context()))
	require.Equal(t, anew, sealed(old), "nothing is left to seal")
}
