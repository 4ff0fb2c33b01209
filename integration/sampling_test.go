package integration_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/integration/seed"
)

// Every test is in the sample of a back end, and a full run has it wherever it can be; those that need an earlier release
// or a browser alone are in no sample.
func TestEveryTestIsInASample(t *testing.T) {
	backends(t, local) // it reads files
	t.Parallel()
	all, err := declarations()
	require.NoError(t, err)
	require.Contains(t, all, t.Name())
	for name, d := range all {
		if d.earlier {
			require.Equal(t, os.Getenv(earlierVariable) != "", d.chosen(d.able[0], true, ""), name)
			require.False(t, d.chosen(d.able[0], false, ""), name)
			continue
		}
		if d.browser {
			require.True(t, d.chosen(d.able[0], true, ""), name)
			require.False(t, d.chosen(d.able[0], false, ""), name)
			continue
		}
		somewhere := 0
		for _, on := range []string{local, openStack} {
			if d.chosen(on, false, "") {
				somewhere++
			}
			able := slices.Contains(d.able, on)
			require.Equal(t, able, d.chosen(on, true, ""), name)
			require.Equal(t, able, d.chosen(on, false, name), name)
		}
		require.Positive(t, somewhere, name)
	}
}

// A seed leaves a quarter of the optional tests of a back end in the sample, each on one back end; there is a seed for each of them,
// and what names a row or a finding is in every sample, unless it is a matrix, whose rows another test names.
func TestSamplesOfTests(t *testing.T) {
	backends(t, local) // it reads files
	t.Parallel()
	all, err := declarations()
	require.NoError(t, err)
	require.True(t, all["TestKillMatrixEvacuate"].optional)
	require.True(t, all["TestPause"].optional)
	require.False(t, all["TestC1ALostHostIsLockedOutOfTemporal"].optional)
	require.False(t, all["TestTPM40WithoutTheKeyManagersRole"].optional)
	require.False(t, all[t.Name()].optional, "it takes no time")
	met := map[string]bool{}
	for i := range 300 {
		some := sampleOf(all, fmt.Sprint(i))
		require.Equal(t, some, sampleOf(all, fmt.Sprint(i)))
		require.Len(t, some, len(all))
		chosen, optional := 0, 0
		for name, d := range all {
			if !d.optional {
				require.Equal(t, d, some[name])
				continue
			}
			optional++
			require.Equal(t, d.able, some[name].able, name)
			require.LessOrEqual(t, len(some[name].sample), 1, name)
			for _, on := range some[name].sample {
				require.Contains(t, d.sample, on)
				chosen++
				met[name+" on "+on] = true
			}
		}
		require.InDelta(t, optional/4, chosen, 4)
	}
	for name, d := range all {
		for _, on := range d.sample {
			require.True(t, met[name+" on "+on] || !d.optional, "%s on %s", name, on)
		}
	}
}

// Whatever the seed, a sample of the real cloud shows each row of the vTPM document, and those of encrypted servers that move; and one of
// either back end each row of the shares document. A test names each of its rows, not a range.
func TestRowsThatTheRealCloudShows(t *testing.T) {
	backends(t, local) // it reads files
	t.Parallel()
	files, err := source.ReadDir(".")
	require.NoError(t, err)
	all, err := declarations()
	require.NoError(t, err)
	shown, somewhere := map[string][]string{}, map[string][]string{}
	for _, file := range files {
		text, err := source.ReadFile(file.Name())
		require.NoError(t, err)
		tests, _, err := testsIn(text)
		require.NoError(t, err)
		for f, text := range tests {
			name := f.Name.Name
			d := all[name]
			if d.optional || len(d.sample) == 0 {
				continue
			}
			for _, row := range ofRow.FindAllString(text, -1) {
				somewhere[row] = append(somewhere[row], name)
				if slices.Contains(d.sample, openStack) {
					shown[row] = append(shown[row], name)
				}
			}
		}
	}
	rows := []string{"EE-25", "EE-29", "EE-30"}
	for n := range 42 {
		rows = append(rows, fmt.Sprintf("TPM-%02d", n+1))
	}
	for _, row := range rows {
		require.NotEmpty(t, shown[row], row)
	}
	for n := range 39 {
		row := fmt.Sprintf("SH-%02d", n+1)
		require.NotEmpty(t, somewhere[row], row)
	}
}

// A sample has points of both sides and no point twice; a seed decides it, and there is
// one for each point.
func TestSamplesOfFaultPoints(t *testing.T) {
	backends(t, local) // it reads files
	t.Parallel()
	for _, n := range []int{1, 2, 3, 7} {
		var activities []string
		for i := range n {
			activities = append(activities, fmt.Sprintf("thing.Do%d", i))
		}
		met := map[string]bool{}
		for i := range 300 {
			points := cutsIn(seed.Dice(fmt.Sprint(i), "spawn"), activities)
			require.Equal(t, points, cutsIn(seed.Dice(fmt.Sprint(i), "spawn"), activities))
			sides := map[string]int{}
			for _, point := range points {
				require.Contains(t, bothSides(activities), point)
				_, side, _ := strings.Cut(point, "@")
				sides[side]++
				met[point] = true
			}
			require.Positive(t, sides["before"])
			require.Positive(t, sides["after"])
			require.Len(t, slices.Compact(slices.Sorted(slices.Values(points))), len(points))
			require.GreaterOrEqual(t, len(points)*share, 2*n)
			require.Less(t, len(points), max(3, n))
		}
		require.Len(t, met, 2*n)
	}
	require.Empty(t, cutsIn(seed.Dice("", ""), nil))
}
