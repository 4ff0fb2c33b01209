package seed

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
)

func deepOne(*testing.T) {}

func deepTwo(*testing.T) {}

// Tests of the deep tiers are left out, unless somebody asks for all, or for tests by name.
func TestDeepTestsAreLeftOut(t *testing.T) {
	run, skip := flag.Lookup("test.run").Value, flag.Lookup("test.skip").Value
	defer func(was, left string) {
		require.NoError(t, run.Set(was))
		require.NoError(t, skip.Set(left))
	}(run.String(), skip.String())
	t.Setenv(RetryVariable, "")
	for _, c := range []struct{ full, run, left string }{
		{"", "", "TestOther|^(deepOne)$|^(deepTwo)$"},
		{"1", "", "TestOther"},
		{"", "deepOne", "TestOther"},
	} {
		t.Setenv(FullVariable, c.full)
		require.NoError(t, run.Set(c.run))
		require.NoError(t, skip.Set("TestOther"))
		Deep("area", deepOne)
		Deep("another", deepTwo)
		require.Equal(t, c.left, skip.String())
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
func TestASecondTryHasTheSameCases(t *testing.T) {
	t.Setenv(FullVariable, "")
	t.Setenv(RetryVariable, "")
	pattern := flag.Lookup("test.run").Value
	defer func(was string) { require.NoError(t, pattern.Set(was)) }(pattern.String())
	require.NoError(t, pattern.Set(""))
	require.False(t, Whole())
	require.NoError(t, pattern.Set("^TestOne$"))
	require.True(t, Whole())
	require.Equal(t, "^TestOne$", Asked())
	t.Setenv(RetryVariable, "1")
	require.False(t, Whole())
	require.Empty(t, Asked())
	t.Setenv(FullVariable, "1")
	require.True(t, Whole())
}
