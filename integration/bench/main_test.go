package bench_test

import (
	"os"
	"testing"

	"strongroom/worker/audittest"
)

func TestMain(m *testing.M) {
	audittest.Main() // the control worker of BenchmarkAudit is this binary again
	os.Exit(m.Run())
}
