package auth_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/api/auth"
)

func TestCache(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	c := auth.NewCache(func() time.Time { return now }, auth.CacheTTL)
	load := func(key string) string { return string(c.LoadTokenPayload(t.Context(), key)) }
	store := func(key, value string) { c.StoreTokenPayload(t.Context(), key, []byte(value)) }

	require.Empty(t, load("a"))
	store("a", "1")
	store("a", "2")
	require.Equal(t, "2", load("a"))
	require.Equal(t, 1, c.Len())

	now = now.Add(auth.CacheTTL - time.Second)
	require.Equal(t, "2", load("a"), "a look does not renew")
	now = now.Add(time.Second)
	require.Empty(t, load("a"))
	require.Equal(t, 0, c.Len(), "what is stale goes")

	store("first", "1")
	store("second", "2")
	require.Equal(t, "1", load("first"))
	for i := range auth.CacheSize - 1 {
		store(fmt.Sprint(i), "x")
	}
	require.Equal(t, auth.CacheSize, c.Len())
	require.Equal(t, "1", load("first"))
	require.Empty(t, load("second"), "the least recently used one gave way")
}
