package seal_test

import (
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
	id := uuid.New()
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

	_, err = box.Unseal(uuid.New(), sealed)
	require.True(t, compute.Is(err, compute.Corrupt), "it is another's")
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
