package secret_test

import (
	"encoding/base64"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/secret"
)

// reveal copies a value out, which only a test may do.
func reveal(t *testing.T, p *secret.Passphrase) string {
	t.Helper()
	var out string
	require.NoError(t, p.Use(func(v []byte) error { out = string(v); return nil }))
	return out
}

func TestGenerateGivesBase64OfRandomBytes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ bytes, text int }{{1, 4}, {64, 88}, {384, 512}} {
		p, err := secret.Generate(tc.bytes)
		require.NoError(t, err)
		require.Equal(t, tc.text, p.Len())
		raw, err := base64.StdEncoding.DecodeString(reveal(t, p))
		require.NoError(t, err)
		require.Len(t, raw, tc.bytes)
	}
	a, err := secret.Generate(64)
	require.NoError(t, err)
	b, err := secret.Generate(64)
	require.NoError(t, err)
	require.NotEqual(t, reveal(t, a), reveal(t, b))
}

func TestGenerateRefusesNoBytes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, -1} {
		_, err := secret.Generate(n)
		require.Error(t, err)
	}
}

func TestWipeZeroesTheGivenSlice(t *testing.T) {
	t.Parallel()
	value := []byte("open sesame")
	p := secret.New(value)
	p.Wipe()
	require.Equal(t, make([]byte, 11), value)
	require.Zero(t, p.Len())
	called := false
	require.ErrorIs(t, p.Use(func([]byte) error { called = true; return nil }), secret.ErrWiped)
	require.False(t, called)
	p.Wipe()
}

func TestEmptyAndNilPassphrases(t *testing.T) {
	t.Parallel()
	require.Empty(t, reveal(t, secret.New(nil)), "an empty value is not a wiped one")
	var none *secret.Passphrase
	none.Wipe()
	require.ErrorIs(t, none.Use(func([]byte) error { return nil }), secret.ErrWiped)
	require.ErrorIs(t, new(secret.Passphrase).Use(func([]byte) error { return nil }), secret.ErrWiped)
	_, err := none.Pipe()
	require.ErrorIs(t, err, secret.ErrWiped)
}

func TestUseGivesTheErrorOfItsFunction(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	require.ErrorIs(t, secret.New([]byte("x")).Use(func([]byte) error { return broken }), broken)
}

func TestWipeWaitsForUse(t *testing.T) {
	t.Parallel()
	p := secret.New([]byte("still here"))
	inside, goOn := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	var seen string
	wg.Go(func() {
		_ = p.Use(func(v []byte) error {
			close(inside)
			<-goOn
			seen = string(v)
			return nil
		})
	})
	<-inside
	wg.Go(p.Wipe)
	close(goOn)
	wg.Wait()
	require.Equal(t, "still here", seen)
	require.Zero(t, p.Len())
}

func TestSum(t *testing.T) {
	t.Parallel()
	p := secret.New([]byte("a passphrase"))
	sum, err := p.Sum()
	require.NoError(t, err)
	again, err := p.Sum()
	require.NoError(t, err)
	require.NotEqual(t, sum, again, "two sums do not tell that they are of one value")
	for value, want := range map[string]bool{"a passphrase": true, "a passphras": false, "a passphrase ": false, "": false} {
		fits, err := secret.New([]byte(value)).Fits(sum)
		require.NoError(t, err)
		require.Equal(t, want, fits, "%q", value)
	}
	for _, broken := range [][]byte{nil, sum[:32], sum[:63], append(slices.Clone(sum), 0)} {
		fits, err := p.Fits(broken)
		require.NoError(t, err)
		require.False(t, fits)
	}
	p.Wipe()
	_, err = p.Sum()
	require.ErrorIs(t, err, secret.ErrWiped)
	_, err = p.Fits(sum)
	require.ErrorIs(t, err, secret.ErrWiped)
}
