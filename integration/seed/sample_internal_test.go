package seed

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A run has a quarter of the cases of a test, the same with the same seed, and each case is in some sample.
func TestSamplesHaveAQuarterOfTheCases(t *testing.T) {
	t.Setenv(FullVariable, "")
	t.Setenv(RetryVariable, "1") // whoever runs this test may ask for it by name
	seen := map[int]bool{}
	for i := range 50 {
		t.Setenv(Variable, fmt.Sprint(i))
		has := Chosen("purpose", 8)
		require.Equal(t, has, Chosen("purpose", 8))
		chosen := 0
		for place, one := range has {
			if one {
				chosen++
				seen[place] = true
			}
		}
		require.Equal(t, 2, chosen)
	}
	require.Len(t, seen, 8)
}

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
