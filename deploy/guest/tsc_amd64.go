package guest

import (
	"math"
	"time"
)

// rdtsc reads the processor's time-stamp counter.
func rdtsc() uint64

// tscKHz measures how fast that counter runs, to a tenth of a MHz: so it is the same each time.
func tscKHz() int {
	const (
		long  = 50 * time.Millisecond
		reads = 20 // of which the one counts that was disturbed least
	)
	now := func() (at time.Time, count uint64) {
		best := time.Duration(math.MaxInt64)
		for range reads {
			before := time.Now()
			read := rdtsc()
			if took := time.Since(before); took < best {
				best, at, count = took, before, read
			}
		}
		return at, count
	}
	begun, from := now()
	time.Sleep(long)
	ended, to := now()
	return int(math.Round(float64(to-from)/ended.Sub(begun).Seconds()/1e5)) * 100
}
