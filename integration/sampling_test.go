package integration_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/integration/seed"
)

// fast.txt names tests that there are, each once and where it can be run, and a deep run has every test of its area wherever it can be.
func TestEveryTestIsChosen(t *testing.T) {
	backends(t, local) // it reads files
	t.Parallel()
	all, err := declarations()
	require.NoError(t, err)
	fast, err := fastTests()
	require.NoError(t, err)
	for on, names := range fast {
		require.True(t, slices.IsSorted(names), "%s: in the order of names", on)
		require.Len(t, slices.Compact(slices.Clone(names)), len(names), "%s: each once", on)
		for _, name := range names {
			require.Contains(t, all, name)
			require.Contains(t, all[name].able, on, name)
			require.False(t, all[name].earlier || all[name].onDemand, name)
		}
	}
	require.Contains(t, fast[local], t.Name())
	for name, d := range all {
		for _, on := range []string{local, openStack} {
			able := slices.Contains(d.able, on) && (!d.earlier || os.Getenv(earlierVariable) != "")
			require.Equal(t, able, d.chosen(name, on, fast, true, ""), name)
			require.Equal(t, able, d.chosen(name, on, fast, false, name), name)
			require.Equal(t, slices.Contains(fast[on], name), d.chosen(name, on, fast, false, ""), name)
		}
	}
}

// Tests on the real cloud show each row of the vTPM document, and those of encrypted servers that move; and tests on either back end each
// row of the shares document. A test names each of its rows, not a range.
func TestRowsThatTheRealCloudShows(t *testing.T) {
	backends(t, local) // it reads files
	t.Parallel()
	files, err := sources.ReadDir(".")
	require.NoError(t, err)
	all, err := declarations()
	require.NoError(t, err)
	shown, somewhere := map[string][]string{}, map[string][]string{}
	for _, file := range files {
		text, err := sources.ReadFile(file.Name())
		require.NoError(t, err)
		tests, err := testsIn(text)
		require.NoError(t, err)
		for f, text := range tests {
			name := f.Name.Name
			if strings.HasPrefix(name, "TestKillMatrix") {
				continue
			}
			for _, row := range ofRow.FindAllString(text, -1) {
				somewhere[row] = append(somewhere[row], name)
				if len(all[name].able) > 0 && all[name].able[0] == openStack {
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

var ofRow = regexp.MustCompile(`\b(EE|TPM|SH|VT|PV)-\d\d\b`)

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
