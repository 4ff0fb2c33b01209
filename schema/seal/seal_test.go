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

// What a passphrase is compared with opens for its server and secret alone, and is told from what is sealed for a credential.
func TestSumsAreSealed(t *testing.T) {
	t.Parallel()
	old := seal.NewKey()
	box, err := seal.Parse([]byte(old))
	require.NoError(t, err)
	server, id := compute.ServerID{UUID: uuid.New()}, compute.SecretID{UUID: uuid.New()}
	sealed := box.SealSum(server, id, []byte("a sum"))
	require.NotContains(t, string(sealed), "a sum")
	rotated, err := seal.Parse([]byte(seal.NewKey() + old))
	require.NoError(t, err)
	for _, b := range []*seal.Box{box, rotated} {
		sum, ok := b.UnsealSum(server, id, sealed)
		require.True(t, ok)
		require.Equal(t, "a sum", string(sum))
	}
	another, err := seal.Parse([]byte(seal.NewKey()))
	require.NoError(t, err)
	for what, opens := range map[string]func() bool{
		"another server": func() bool { _, ok := box.UnsealSum(compute.ServerID{UUID: uuid.New()}, id, sealed); return ok },
		"another secret": func() bool { _, ok := box.UnsealSum(server, compute.SecretID{UUID: uuid.New()}, sealed); return ok },
		"nothing":        func() bool { _, ok := box.UnsealSum(server, id, nil); return ok },
		"changed": func() bool {
			_, ok := box.UnsealSum(server, id, append(sealed[:len(sealed)-1:len(sealed)-1], sealed[len(sealed)-1]^1))
			return ok
		},
		"another key": func() bool { _, ok := another.UnsealSum(server, id, sealed); return ok },
		"of a credential": func() bool {
			_, ok := box.UnsealSum(server, id, box.Seal(compute.Credential{ID: server.UUID}, []byte("a sum")))
			return ok
		},
	} {
		require.False(t, opens(), what)
	}
}
