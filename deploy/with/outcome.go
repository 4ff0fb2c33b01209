package main

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// invariant marks the failure of what must hold at any time and under any load: a server with two running copies, a secret in a file, a 500
// under attack, a leftover that the ledger does not know. No second try may hide it.
const invariant = "INVARIANT"

// maxRetries is how many failed tests of a command are run again. More failures are hardly chance.
const maxRetries = 3

// outcome is how the tests of a command ended.
type outcome struct {
	running    map[test]bool
	passed     map[test]bool
	failed     map[test]bool     // root tests
	firstError map[test]string   // of root tests
	invariant  map[test]bool     // root tests that printed the mark
	started    map[string]bool   // packages that have not ended
	packages   map[string]bool   // those that failed
	crashed    map[string]string // packages whose test program was not built or did not end by itself, with the message
}

func newOutcome() outcome {
	return outcome{
		running: map[test]bool{}, passed: map[test]bool{}, failed: map[test]bool{}, firstError: map[test]string{}, invariant: map[test]bool{},
		started: map[string]bool{}, packages: map[string]bool{}, crashed: map[string]string{},
	}
}

var (
	// crash is what a test program prints when it crashes, runs out of time, has a data race or leaves a process behind.
	crash = regexp.MustCompile(`panic: |fatal error: |^SIG[A-Z]+: |^WARNING: DATA RACE|^signal: |^\*\*\* Test (killed|I/O incomplete)`)
	// complaint is a line of a failing test with what was wrong: testify's, or that of t.Error.
	complaint = regexp.MustCompile(`^\s+(?:(?:Error|Messages):|\w+_test\.go:\d+:)\s+(\S.*)`)
	// more is a further line of a complaint that ends in a colon.
	more = regexp.MustCompile(`^\s+(\S.*)`)
)

// note takes in one event.
func (o *outcome) note(e event) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "start":
		o.started[e.Package] = true
	case "run":
		o.running[t] = true
	case "pass", "skip":
		o.ended(t)
		o.passed[t] = e.Action == "pass"
	case "output":
		o.noteOutput(t.root(), e.Output)
	case "build-fail":
		pkg, _, _ := strings.Cut(e.ImportPath, " ") // "p [p.test]"
		o.packages[pkg], o.crashed[pkg] = true, "build failed"
	case "fail":
		o.ended(t)
		if e.Test == "" {
			o.packages[e.Package] = true
		} else if t == t.root() {
			o.failed[t] = true
		}
	}
}

func (o *outcome) ended(t test) {
	if t.name == "" {
		delete(o.started, t.pkg)
	} else {
		delete(o.running, t)
	}
}

func (o *outcome) noteOutput(root test, line string) {
	if crash.MatchString(line) && o.crashed[root.pkg] == "" {
		o.crashed[root.pkg] = strings.TrimSpace(line)
	}
	if strings.Contains(line, invariant) {
		o.invariant[root] = true
	}
	if root.name == "" {
		return
	}
	first := o.firstError[root]
	if m := complaint.FindStringSubmatch(line); m != nil && first == "" {
		o.firstError[root] = strings.TrimSpace(m[1])
	} else if m := more.FindStringSubmatch(line); m != nil && strings.HasSuffix(first, ":") {
		o.firstError[root] = first + " " + strings.TrimSpace(m[1])
	}
}

// retries returns the failed tests if all of them may be run again, and otherwise the reason why none is: the command fails anyway.
// flaky are tests that had a second try at two commits already.
func (o *outcome) retries(retryable patterns, flaky map[test]bool) (tests []test, reason string) {
	tests = slices.SortedFunc(maps.Keys(o.failed), func(a, b test) int {
		return cmp.Or(strings.Compare(a.pkg, b.pkg), strings.Compare(a.name, b.name))
	})
	hasFailed := map[string]bool{}
	for _, t := range tests {
		hasFailed[t.pkg] = true
		switch {
		case !retryable.match(t):
			return nil, fmt.Sprintf("%s of %s is not listed as a test that depends on services", t.name, t.pkg)
		case o.invariant[t], o.invariant[test{pkg: t.pkg}]:
			return nil, t.name + " found an invariant broken"
		case flaky[t]:
			return nil, t.name + " had a second try at two commits already"
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(o.packages)) {
		if message := o.crashed[pkg]; message != "" {
			return nil, pkg + ": " + message
		}
		if !hasFailed[pkg] {
			return nil, pkg + " failed, and none of its tests did"
		}
	}
	for pkg := range o.started {
		return nil, pkg + " did not end"
	}
	for t := range o.running {
		return nil, fmt.Sprintf("%s of %s did not end", t.name, t.pkg)
	}
	if len(tests) > maxRetries {
		return nil, fmt.Sprintf("%d tests failed, and at most %d are run again", len(tests), maxRetries)
	}
	return tests, ""
}
