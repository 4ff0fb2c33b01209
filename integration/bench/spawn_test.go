package bench_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
)

// oldVariable names a `strongroom` of another commit, to compare with.
const oldVariable = "STRONGROOM_BENCH_OLD"

// creates is how many servers each binary creates.
const creates = 30

// spawned is what a create took: for its client, from the request until the server is
// ACTIVE, and as Temporal keeps it.
type spawned struct {
	took                   time.Duration
	events, bytes, markers int
}

// BenchmarkSpawn creates servers with an encrypted local disk and a vTPM, whose guest does
// nothing: one at a time, in turn on the binary that STRONGROOM_BENCH_OLD names and on the
// present one, each with a stack of its own beside the other's.
func BenchmarkSpawn(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root: libvirt, QEMU, PostgreSQL")
	}
	present := build(b)
	var stacks []*dev
	if old := os.Getenv(oldVariable); old != "" {
		stacks = append(stacks, startDev(b, "old", old))
	} else {
		b.Logf("%s names no binary: the present one is measured alone", oldVariable)
	}
	stacks = append(stacks, startDev(b, "new", present))
	all := make([][]spawned, len(stacks))
	for _, d := range stacks {
		d.spawn() // the host has the image now
	}
	for b.Loop() {
		for n := range creates {
			for i := range stacks {
				i = (i + n) % len(stacks) // neither always goes first
				all[i] = append(all[i], stacks[i].spawn())
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.Log(table(stacks, all))
	for i, d := range stacks {
		b.ReportMetric(middle(all[i], took).Seconds()*1000, d.name+"-ms")
	}
	if len(all) == 2 {
		b.ReportMetric(float64(middle(all[1], took))/float64(middle(all[0], took)), "new/old")
		pairs := ratios(all[0], all[1])
		b.ReportMetric(pairs[len(pairs)/2], "pairs-new/old")
		b.Logf("new/old of the two creates of each turn: median %.2f, a quarter below %.2f, a quarter above %.2f",
			pairs[len(pairs)/2], pairs[len(pairs)/4], pairs[len(pairs)*3/4])
	}
}

// ratios are those of creates that followed each other, in order of size: what else the
// machine does changes both alike.
func ratios(before, now []spawned) (out []float64) {
	for i := range before {
		out = append(out, float64(now[i].took)/float64(before[i].took))
	}
	slices.Sort(out)
	return out
}

// build builds the present binary.
func build(b *testing.B) string {
	b.Helper()
	binary := filepath.Join(b.TempDir(), "strongroom")
	out, err := exec.CommandContext(b.Context(), "go", "build", "-o", binary, "strongroom/cmd/strongroom").CombinedOutput()
	require.NoError(b, err, string(out))
	return binary
}

func took(s spawned) time.Duration { return s.took }
func events(s spawned) int         { return s.events }
func bytes(s spawned) int          { return s.bytes }
func markers(s spawned) int        { return s.markers }

// table shows how long creates took, in milliseconds, and the median size of histories.
func table(stacks []*dev, all [][]spawned) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "\nbinary\tcreates\tmedian\tmin\tp10\tp90\tmax\tevents\tbytes\tmarkers\t")
	for i, d := range stacks {
		one := all[i]
		_, _ = fmt.Fprintf(w, "%s\t%d\t", d.name, len(one))
		for _, q := range []float64{0.5, 0, 0.1, 0.9, 1} {
			_, _ = fmt.Fprintf(w, "%d\t", quantile(one, took, q).Milliseconds())
		}
		_, _ = fmt.Fprintf(w, "%d\t%d\t%d\t\n", middle(one, events), middle(one, bytes), middle(one, markers))
	}
	_ = w.Flush()
	return text.String()
}

func middle[T ~int | ~int64](all []spawned, of func(spawned) T) T { return quantile(all, of, 0.5) }

// quantile is the one below which a part q of all is.
func quantile[T ~int | ~int64](all []spawned, of func(spawned) T, q float64) T {
	var values []T
	for _, s := range all {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[int(q*float64(len(values)-1)+0.5)]
}
