package await

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// waits runs a wait on a clock of its own, with a share of the time stalled, and gives how long it took. A share below zero:
// the kernel does not tell.
func waits(t *testing.T, share float64, do func(w *wait) error, witnesses ...Witness) (took time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		begun := time.Now()
		err = do(start(func() (time.Duration, bool) {
			return time.Duration(share * float64(time.Since(begun))), share >= 0
		}, witnesses))
		took = time.Since(begun)
	})
	return took, err
}

func never() bool { return false }

// inTime is a condition that holds once a time has passed.
func inTime(d time.Duration) func(w *wait) error {
	return func(w *wait) error {
		return w.until("it", func() bool { return time.Since(w.begun) >= d }, firstPause, lastPause)
	}
}

func TestItEndsWhenTheConditionHolds(t *testing.T) {
	t.Parallel()
	took, err := waits(t, 0, inTime(0))
	require.NoError(t, err)
	require.Zero(t, took, "it looks before it waits")
	took, err = waits(t, 0, inTime(time.Minute))
	require.NoError(t, err)
	require.GreaterOrEqual(t, took, time.Minute)
	require.LessOrEqual(t, took, time.Minute+lastPause)
}

func TestPausesGrow(t *testing.T) {
	t.Parallel()
	var looked []time.Duration
	_, err := waits(t, 0, func(w *wait) error {
		return w.until("it", func() bool {
			looked = append(looked, time.Since(w.begun))
			return time.Since(w.begun) > time.Minute
		}, firstPause, lastPause)
	})
	require.NoError(t, err)
	require.Equal(t, firstPause, looked[1])
	for i := 2; i < len(looked); i++ {
		require.LessOrEqual(t, looked[i]-looked[i-1], lastPause)
		require.GreaterOrEqual(t, looked[i]-looked[i-1], looked[i-1]-looked[i-2])
	}
	require.Equal(t, lastPause, looked[len(looked)-1]-looked[len(looked)-2])
}

// What counts is granted time: three minutes, less what was stalled, in no more than ten times the clock's.
func TestItFailsWhenNothingMoves(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		share float64
		after time.Duration
	}{
		{0, 3 * time.Minute}, {0.5, 6 * time.Minute}, {0.875, 24 * time.Minute}, {0.99, 30 * time.Minute}, {1, 30 * time.Minute}, {-1, 10 * time.Minute},
	} {
		t.Run(fmt.Sprint(k.share), func(t *testing.T) {
			t.Parallel()
			for _, d := range []time.Duration{k.after - 2*time.Second, k.after + 5*time.Second} {
				took, err := waits(t, k.share, inTime(d))
				if d < k.after {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, "it")
				require.GreaterOrEqual(t, took, k.after)
				require.LessOrEqual(t, took, k.after+lastPause)
			}
		})
	}
}

// moving is a witness with a new value each so often, for so long.
func moving(every, until time.Duration) Witness {
	var begun time.Time
	return Witness{"steps", func() string {
		if begun.IsZero() {
			begun = time.Now()
		}
		return fmt.Sprintf("step %d.", min(time.Since(begun), until)/every)
	}}
}

func TestItGoesOnWhileAWitnessMoves(t *testing.T) {
	t.Parallel()
	still := Witness{"still", func() string { return "" }}
	_, err := waits(t, 0, inTime(10*time.Hour), moving(2*time.Minute, 10*time.Hour), still)
	require.NoError(t, err)
	took, err := waits(t, 0, inTime(10*time.Hour), moving(2*time.Minute, time.Hour), still)
	require.Error(t, err)
	require.InDelta(t, time.Hour+3*time.Minute, took, float64(2*lookEvery))
	took, err = waits(t, 0, inTime(time.Hour), still)
	require.Error(t, err)
	require.InDelta(t, 3*time.Minute, took, float64(2*lookEvery))
}

// One that moved after the last look is asked before the wait gives up.
func TestTheLastLookCounts(t *testing.T) {
	t.Parallel()
	begun := time.Time{}
	slow := func(w *wait) error {
		begun = w.begun
		return w.until("it", func() bool {
			time.Sleep(2 * time.Minute)
			return time.Since(begun) > 9*time.Minute
		}, firstPause, lastPause)
	}
	_, err := waits(t, 0, slow, Witness{"clock", func() string { return time.Since(begun).String() }})
	require.NoError(t, err)
}

func TestWhatGoesBackAndForthStandsStill(t *testing.T) {
	t.Parallel()
	n := 0
	flaps := Witness{"flaps", func() string {
		n++
		return fmt.Sprint(n%2 == 0)
	}}
	took, err := waits(t, 0, inTime(time.Hour), flaps)
	require.ErrorContains(t, err, "flaps:")
	require.InDelta(t, 3*time.Minute, took, float64(3*lookEvery))
}

func TestItTellsWhatStoodStill(t *testing.T) {
	t.Parallel()
	_, err := waits(t, 0, func(w *wait) error { return w.until("the server settles", never, firstPause, lastPause) },
		moving(time.Minute, 12*time.Minute), Witness{"guest", func() string { return "says nothing" }})
	require.ErrorContains(t, err, "the server settles")
	said := err.Error()
	require.Regexp(t, `waited for 15m\d+s, of which nothing moved for 3m\d+s`, said)
	for n := range 13 {
		has := strings.Contains(said, fmt.Sprintf(" step %d.", n))
		require.Equal(t, n >= 3, has, "%d: %s", n, said)
	}
	require.Regexp(t, `\nsteps:\n  00:03:\d\d step 3\.\n  00:04:\d\d step 4\.`, said) // its clock begins at midnight
	require.Regexp(t, `\nguest:\n  \d\d:\d\d:\d\d says nothing$`, said)
}

// failing is a test that is seen to fail.
type failing struct {
	testing.TB
	said []any
}

func (f *failing) Helper() {}

func (f *failing) Logf(string, ...any) {}

func (f *failing) Fatal(args ...any) {
	f.said = args
	runtime.Goexit()
}

func TestItFailsTheTest(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]func(t testing.TB){
		"for":   func(t testing.TB) { For(t, "it never is", never) },
		"every": func(t testing.TB) { Every(t, time.Minute, "it never is", never) },
	} {
		synctest.Test(t, func(t *testing.T) {
			f, after := &failing{}, false
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				waits(f)
				after = true
			}()
			<-ended
			require.Len(t, f.said, 1, name)
			require.ErrorContains(t, f.said[0].(error), "it never is", name)
			require.False(t, after, "the test ends there")
		})
	}
}

func TestEveryHasOnePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun, looks := time.Now(), 0
		Every(t, 5*time.Millisecond, "a minute is over", func() bool {
			looks++
			return time.Since(begun) >= time.Minute
		})
		require.Equal(t, time.Minute, time.Since(begun))
		require.Equal(t, int(time.Minute/(5*time.Millisecond))+1, looks)
	})
}

func TestQuiet(t *testing.T) {
	t.Parallel()
	for share, clock := range map[float64]time.Duration{0: 10 * time.Second, 0.5: 20 * time.Second, 1: 100 * time.Second, -1: 10 * time.Second} {
		took, err := waits(t, share, func(w *wait) error {
			w.quiet(10 * time.Second)
			return nil
		})
		require.NoError(t, err)
		require.InDelta(t, clock, took, float64(100*time.Millisecond), "%v", share)
	}
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		Quiet(&failing{}, time.Second, "nothing")
		require.GreaterOrEqual(t, time.Since(begun), time.Second)
	})
}

func TestPressure(t *testing.T) {
	t.Parallel()
	for text, total := range map[string]time.Duration{
		"some avg10=87.54 avg60=89.09 avg300=80.74 total=39083249534\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n": 39083249534 * time.Microsecond,
		"full avg10=0.00 avg60=0.00 avg300=0.00 total=7\nsome avg10=0.00 avg60=0.00 avg300=0.00 total=0\n":              0,
		"": -1, "some": -1, "some avg10=0.00 total=many\n": -1, "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n": -1,
	} {
		got, known := some(text)
		require.Equal(t, total >= 0, known, text)
		require.Equal(t, max(total, 0), got, text)
	}
}
