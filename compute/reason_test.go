package compute_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestReasonsAreShort(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "why", strings.Repeat("x", 500)} {
		require.Equal(t, text, compute.Thing{}.Waits(compute.BlockedByError, text).Reason)
	}
	for _, char := range []string{"x", "ä", "…", "🗝"} {
		for shift := range 4 {
			got := compute.Thing{}.Waits(compute.BlockedByError, strings.Repeat("-", shift)+strings.Repeat(char, 600)).Reason
			require.LessOrEqual(t, len(got), 500)
			require.Greater(t, len(got), 490)
			require.True(t, utf8.ValidString(got))
			require.True(t, strings.HasSuffix(got, char+"…"), got)
			require.Equal(t, got, compute.ShortReason(got))
		}
	}
}
