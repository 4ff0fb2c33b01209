package guest

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a guest is told of its counter is what the machine's runs at, however busy the machine is.
func TestTheSpeedOfTheCounter(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		require.Zero(t, tscKHz())
		return
	}
	first := tscKHz()
	require.Greater(t, first, 100_000)
	for range 5 {
		require.Less(t, math.Abs(float64(tscKHz()-first))/float64(first), 0.001)
	}
}
