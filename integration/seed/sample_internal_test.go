package seed

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The same seed leaves out the same ones, and each test is in some sample.
func TestSamplesLeaveAQuarterOfTheTests(t *testing.T) {
	t.Parallel()
	names := []string{"TestA", "TestB", "TestC", "TestD", "TestE"}
	seen := map[string]bool{}
	for i := range 50 {
		text := fmt.Sprint(i)
		left := Leave(Dice(text, ""), slices.Clone(names))
		require.Len(t, left, 3)
		require.Equal(t, left, Leave(Dice(text, ""), slices.Clone(names)))
		for _, name := range names {
			seen[name] = seen[name] || !slices.Contains(left, name)
		}
	}
	require.Len(t, seen, len(names))
	for _, name := range names {
		require.True(t, seen[name], name)
	}
}
