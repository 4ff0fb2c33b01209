package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// summarize prints how the stages ended, and reports whether everything passed. deep are the deep tests that are green for the present sources.
func summarize(to io.Writer, stages []stage, named []naming, deep []suite) (ok bool) {
	var passed, failed, flaky int
	var failures []string
	var suites []suite
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "stage\tended\ttime\tpassed\tfailed\tskipped\tflaky")
	for _, s := range stages {
		bad := s.count("fail")
		if s.err == nil && bad > 0 {
			s.err = fmt.Errorf("%d tests failed", bad)
		}
		ended, counts := "ok", "-\t-\t-\t-"
		if s.err != nil {
			ended = "FAILED"
			failures = append(failures, fmt.Sprintf("%s: %v", s.name, s.err))
			failed += max(1, bad) // a stage that fails without a test counts as one
		}
		if s.tests {
			suites = append(suites, s.suite)
			counts = fmt.Sprintf("%d\t%d\t%d\t%d", s.count("pass"), bad, s.count("skip"), len(s.flaky()))
		}
		passed, flaky = passed+s.count("pass"), flaky+len(s.flaky())
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", s.name, ended, s.took.Round(time.Second), counts)
	}
	_ = table.Flush() // to memory
	for _, s := range suites {
		for _, line := range s.samples {
			fmt.Fprintln(to, line)
		}
	}
	printSlowest(to, suites)
	for _, s := range suites {
		for _, t := range s.flaky() {
			fmt.Fprintf(to, "FLAKY %s.%s: %s: %s\n", t.pkg, t.name, s.name, s.retried[t])
		}
	}
	all, missing, without := shown(named, suites)
	fmt.Fprintf(to, "%d rows of the design documents are named by tests; passed: %d", all, all-len(missing)-len(without))
	_, _, nowhere := shown(named, slices.Concat(suites, deep))
	if n := len(without) - len(nowhere); n > 0 {
		fmt.Fprintf(to, "; in deep tests that are green for these sources: %d", n)
	}
	if len(nowhere) > 0 {
		fmt.Fprint(to, "; of which no test ran: ", strings.Join(nowhere, ", "))
	}
	fmt.Fprintln(to)
	if len(missing) > 0 {
		failed++
		failures = append(failures, "rows whose tests ran, and none passed: "+strings.Join(missing, ", "))
	}
	for _, failure := range failures {
		fmt.Fprintln(to, "FAILED", failure)
	}
	if n, sum := list(suites); n > 0 {
		fmt.Fprintf(to, "list of tests: %d, %s\n", n, sum)
	}
	fmt.Fprintf(to, "%d passed, %d failed", passed, failed)
	if flaky > 0 {
		fmt.Fprintf(to, ", %d flaky", flaky)
	}
	fmt.Fprintln(to)
	return len(failures) == 0
}

// list says how many tests ran, subtests not counted, and which: two runs with the same sum had the same tests in the same suites. A skipped test counts.
func list(suites []suite) (n int, sum string) {
	var names []string
	for _, s := range suites {
		for t := range s.ended {
			if !strings.Contains(t.name, "/") {
				names = append(names, s.name+" "+t.pkg+"."+t.name+"\n")
			}
		}
	}
	slices.Sort(names)
	of := sha256.Sum256([]byte(strings.Join(names, "")))
	return len(names), hex.EncodeToString(of[:6])
}

// listed is how many of the slowest are printed.
const listed = 10

// printSlowest prints which packages and which tests took longest.
func printSlowest(to io.Writer, suites []suite) {
	for _, of := range []string{"packages", "tests"} {
		type took struct {
			name    string
			seconds float64
		}
		var all []took
		for _, s := range suites {
			for t, seconds := range s.seconds {
				if t.name != "" && t.pkg == endToEnd {
					continue // most of its time, it waited for a cloud
				}
				if (t.name == "") == (of == "packages") && !strings.Contains(t.name, "/") {
					name := strings.TrimPrefix(t.pkg, module+"/")
					if t.name != "" {
						name += "." + t.name
					}
					name += " (" + s.name + ")"
					all = append(all, took{name, seconds})
				}
			}
		}
		slices.SortFunc(all, func(a, b took) int {
			return cmp.Or(cmp.Compare(b.seconds, a.seconds), strings.Compare(a.name, b.name))
		})
		var line []string
		for _, one := range all[:min(listed, len(all))] {
			line = append(line, fmt.Sprintf("%s %.0f s", one.name, one.seconds))
		}
		if len(line) > 0 {
			fmt.Fprintf(to, "slowest %s: %s\n", of, strings.Join(line, ", "))
		}
	}
}
