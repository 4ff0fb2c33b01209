package seed

import (
	"flag"
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

// Without a seed of its own, each commit and each clone has the same sample.
func TestTheDefaultSampleIsFixed(t *testing.T) {
	t.Setenv(Variable, "")
	t.Chdir(t.TempDir()) // no repository
	require.Equal(t, fixed, Text())
	t.Setenv(Variable, "another")
	require.Equal(t, "another", Text())
}

// -run has every case of the tests that it names, except in a second try, which has the cases of the first.
func TestASecondTryHasTheSameSample(t *testing.T) {
	t.Setenv(FullVariable, "")
	t.Setenv(RetryVariable, "")
	pattern := flag.Lookup("test.run").Value
	defer func(was string) { require.NoError(t, pattern.Set(was)) }(pattern.String())
	require.NoError(t, pattern.Set(""))
	sample := Chosen("purpose", 20)
	require.NoError(t, pattern.Set("^TestOne$"))
	require.NotContains(t, Chosen("purpose", 20), false)
	require.Equal(t, "^TestOne$", Asked())
	t.Setenv(RetryVariable, "1")
	require.Equal(t, sample, Chosen("purpose", 20))
	require.Empty(t, Asked())
}
