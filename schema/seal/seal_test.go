package seal_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema/seal"
)

func TestSeal(t *testing.T) {
	t.Parallel()
	first, second := seal.NewKey(), seal.NewKey()
	box, err := seal.Parse([]byte(first))
	require.NoError(t, err)
	id := compute.Credential{ID: uuid.New(), ProjectID: "p1", UserID: "u1"}
	sealed := box.Seal(id, []byte("a token"))
	require.NotContains(t, string(sealed), "token")
	require.NotEqual(t, sealed, box.Seal(id, []byte("a token")))
	value, err := box.Unseal(id, sealed)
	require.NoError(t, err)
	require.Equal(t, "a token", string(value))

	rotated, err := seal.Parse([]byte(second + first))
	require.NoError(t, err)
	value, err = rotated.Unseal(id, sealed)
	require.NoError(t, err, "an old key still opens")
	require.Equal(t, "a token", string(value))
	_, err = box.Unseal(id, rotated.Seal(id, nil))
	require.True(t, compute.Is(err, compute.Corrupt), "the new key is another")

	for _, other := range []compute.Credential{
		{ID: uuid.New(), ProjectID: "p1", UserID: "u1"}, {ID: id.ID, ProjectID: "p2", UserID: "u1"}, {ID: id.ID, ProjectID: "p1", UserID: "u2"},
		{ID: id.ID, ProjectID: "p1u", UserID: "1"}, {ID: id.ID},
	} {
		_, err = box.Unseal(other, sealed)
		require.True(t, compute.Is(err, compute.Corrupt), "it is another's: %v", other)
	}
	for i := range sealed {
		changed := append([]byte(nil), sealed...)
		changed[i] ^= 1
		_, err = box.Unseal(id, changed)
		require.True(t, compute.Is(err, compute.Corrupt), "byte %d", i)
		_, err = box.Unseal(id, sealed[:i])
		require.True(t, compute.Is(err, compute.Corrupt), "cut at %d", i)
	}
}

func TestParseRefusesWhatIsNoKey(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n", "abc", "zz", seal.NewKey()[:60], seal.NewKey() + "x"} {
		_, err := seal.Parse([]byte(text))
		require.True(t, compute.Is(err, compute.Invalid), "%q", text)
	}
}

// sealedBefore is "a token of before" as 0.1.0-dev sealed it before project and user counted.
const sealedBefore = "4d287f01abd38ddd26823077e99c42ee76aa8b47b26dbefa9a5977e83a2726727101e239c5cf356f9f3d6c51c1ae944dae"

// What a release sealed that bound a token to its id alone opens still, and nothing else does
// in its place.
func TestWhatWasSealedBeforeOpens(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("0b", seal.KeyBytes) + "\n"
	box, err := seal.Parse([]byte(key))
	require.NoError(t, err)
	id := compute.Credential{ID: uuid.MustParse("00000000-0000-4000-8000-000000000001"), ProjectID: "p1", UserID: "u1"}
	before, err := hex.DecodeString(sealedBefore)
	require.NoError(t, err)
	value, err := box.Unseal(id, before)
	require.NoError(t, err)
	require.Equal(t, "a token of before", string(value))
	id.ID = uuid.New()
	_, err = box.Unseal(id, before)
	require.True(t, compute.Is(err, compute.Corrupt))
}
