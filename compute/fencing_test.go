package compute_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestFencing(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, c := range map[string]struct {
		is      compute.Fencing
		refused string // "": it is fenced
	}{
		"it reports itself":                        {compute.Fencing{Silent: 59 * s}, "is still in use."},
		"and was forced down":                      {compute.Fencing{Silent: 59 * s, ForcedDown: true}, "still reports itself"},
		"and has a watchdog":                       {compute.Fencing{Silent: 59 * s, After: 60 * s}, "is still in use."},
		"silent":                                   {compute.Fencing{Silent: time.Hour}, "fence the host"},
		"its operator says so":                     {compute.Fencing{Silent: 60 * s, ForcedDown: true}, ""},
		"its operator says so before the watchdog": {compute.Fencing{Silent: 60 * s, ForcedDown: true, After: time.Hour}, ""},
		"its watchdog waits":                       {compute.Fencing{Silent: 119 * s, After: 60 * s}, "ask again in 1 seconds"},
		"its watchdog waits a little":              {compute.Fencing{Silent: 120*s - 1, After: 60 * s}, "ask again in 1 seconds"},
		"its watchdog had its time":                {compute.Fencing{Silent: 120 * s, After: 60 * s}, ""},
		"a long time":                              {compute.Fencing{Silent: time.Hour, After: time.Hour}, "ask again in 60 seconds"},
		"a clock that was set back":                {compute.Fencing{Silent: -time.Hour, After: 60 * s}, "is still in use."},
	} {
		err := c.is.Check("node-1")
		if c.refused == "" {
			require.NoError(t, err, name)
			continue
		}
		require.Equal(t, compute.Invalid, compute.KindOf(err), name)
		require.ErrorContains(t, err, "Compute service of node-1 is still in use.", name)
		require.ErrorContains(t, err, c.refused, name)
	}
}

func TestCheckFenceAfter(t *testing.T) {
	t.Parallel()
	for _, seconds := range []int{0, 60, 86400} {
		require.NoError(t, compute.CheckFenceAfter(seconds))
	}
	for _, seconds := range []int{-1, 1, 59, 86401} {
		require.Equal(t, compute.Invalid, compute.KindOf(compute.CheckFenceAfter(seconds)), "%d", seconds)
	}
}
