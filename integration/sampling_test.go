package integration_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/integration/seed"
)

// Every test is in the sample of a back end, and a full run has it wherever it can be; those that need an earlier release
// or packages of their own alone are in no sample.
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
		if d.onDemand {
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

// Whatever the seed, a sample shows each row and finding that a test with a cloud shows, on the real cloud where one there does. One
// of oneOf of the tests that it takes not for that is in it, each on one back end, and there is a seed for each of them.
func TestSamplesOfTests(t *testing.T) {
	backends(t, local) // it reads files
	t.Parallel()
	all, err := declarations()
	require.NoError(t, err)
	require.True(t, all["TestKillMatrixEvacuate"].matrix)
	require.True(t, all["TestPause"].cloud)
	require.True(t, all["TestC1ALostHostIsLockedOutOfTemporal"].finding)
	require.Empty(t, all["TestC1ALostHostIsLockedOutOfTemporal"].shows)
	require.False(t, all["TestPause"].finding)
	require.Contains(t, all["TestShelveAndUnshelve"].shows, "TPM-21")
	require.False(t, all[t.Name()].cloud, "it takes no time")
	where := func(tests map[string]declared) map[string]string { // by row
		place := map[string]string{}
		for _, d := range tests {
			for _, row := range d.shows {
				if d.cloud && !d.matrix && len(d.sample) == 1 && place[row] != openStack {
					place[row] = d.sample[0]
				}
			}
		}
		return place
	}
	met, share := map[string]bool{}, 0.0
	const seeds = 300
	for i := range seeds {
		some := sampleOf(all, fmt.Sprint(i))
		require.Equal(t, some, sampleOf(all, fmt.Sprint(i)))
		require.Len(t, some, len(all))
		require.Equal(t, where(all), where(some))
		matrices, chosen := 0, 0
		for name, d := range all {
			if !d.cloud {
				require.Equal(t, d, some[name])
				continue
			}
			require.Equal(t, d.able, some[name].able, name)
			require.LessOrEqual(t, len(some[name].sample), 1, name)
			for _, on := range some[name].sample {
				require.Contains(t, d.sample, on)
				met[name+" on "+on] = true
				share++
				if d.matrix {
					chosen++
				}
			}
			if d.matrix {
				matrices++
			}
		}
		require.InDelta(t, matrices/oneOf, chosen, 2)
	}
	for name, d := range all {
		for _, on := range d.sample {
			require.True(t, met[name+" on "+on] || !d.cloud, "%s on %s", name, on)
		}
	}
	t.Logf("%.1f of %d tests are in a sample, in the mean", share/seeds, len(all))
}

// Of the tests that a sample takes to show something, none could be left out, and what they show is what all do.
func TestWhatShowsAllRows(t *testing.T) {
	backends(t, local) // it reads files
	t.Parallel()
	all := map[string]declared{
		"one": {shows: []string{"EE-01", "EE-02"}}, "two": {shows: []string{"EE-02", "EE-03"}}, "three": {shows: []string{"EE-01", "EE-03"}},
		"alone": {shows: []string{"EE-04"}}, "elsewhere": {shows: []string{"EE-05"}}, "nothing": {},
	}
	left := map[string]bool{}
	for i := range 50 {
		needed, spare := shownBy(seed.Dice(fmt.Sprint(i), ""), all, slices.Sorted(maps.Keys(all)), map[string]bool{"EE-05": true})
		require.ElementsMatch(t, slices.Collect(maps.Keys(all)), slices.Concat(needed, spare))
		require.Subset(t, spare, []string{"elsewhere", "nothing"})
		require.Contains(t, needed, "alone")
		require.Len(t, needed, 3, "two of the three that show each other's")
		for _, name := range spare {
			left[name] = true
		}
	}
	require.Len(t, left, 5, "there is a seed that goes without each of the three")
}

// The real cloud shows each row of the vTPM document, and those of encrypted servers that move; and one of either back end each row of
// the shares document. A test names each of its rows, not a range.
func TestRowsThatTheRealCloudShows(t *testing.T) {
	backends(t, local) // it reads files
	t.Parallel()
	all, err := declarations()
	require.NoError(t, err)
	shown, somewhere := map[string]bool{}, map[string]bool{}
	for _, d := range sampleOf(all, seed.Text()) {
		for _, row := range d.shows {
			somewhere[row] = somewhere[row] || len(d.sample) > 0
			shown[row] = shown[row] || slices.Contains(d.sample, openStack)
		}
	}
	rows := []string{"EE-25", "EE-29", "EE-30"}
	for n := range 42 {
		rows = append(rows, fmt.Sprintf("TPM-%02d", n+1))
	}
	for _, row := range rows {
		require.True(t, shown[row], row)
	}
	for n := range 39 {
		row := fmt.Sprintf("SH-%02d", n+1)
		require.True(t, somewhere[row], row)
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
