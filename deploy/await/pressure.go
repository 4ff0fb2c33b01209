package await

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// stalled is how long some task has had to wait for a CPU since the machine was started. known is false where
// the kernel does not tell.
func stalled() (total time.Duration, known bool) {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0, false
	}
	return some(string(text))
}

// some takes the total out of a file of pressure: some avg10=0.31 avg60=0.60 avg300=0.71 total=49203482.
func some(text string) (total time.Duration, known bool) {
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		_, count, _ := strings.Cut(rest, "total=")
		if n, err := strconv.ParseInt(count, 10, 64); kind == "some" && err == nil {
			return time.Duration(n) * time.Microsecond, true
		}
	}
	return 0, false
}
