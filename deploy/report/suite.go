package main

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// suite is how the tests of one run of `go test -json` ended.
type suite struct {
	name    string
	ended   map[test]string  // pass, fail or skip
	retried map[test]string  // root tests that had a second try, with the error of the first
	seconds map[test]float64 // those of a package have no name
	samples []string         // what the end-to-end suites say of their samples
}

// test is a test or a subtest.
type test struct{ pkg, name string }

func compareTests(a, b test) int { return strings.Compare(a.pkg+"."+a.name, b.pkg+"."+b.name) }

// sampleLine is how the end-to-end suites begin what they say of their samples.
const sampleLine = "back end "

func readSuite(path string) (suite, error) {
	s := suite{name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), ended: map[test]string{}, retried: map[test]string{}, seconds: map[test]float64{}}
	file, err := os.Open(path)
	if err != nil {
		return s, err
	}
	defer func() { _ = file.Close() }()
	for lines := json.NewDecoder(file); ; {
		var e struct {
			Action, Package, Test, Output string
			Elapsed                       float64
		}
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			return s, nil
		} else if err != nil {
			return s, err
		}
		of := test{e.Package, e.Test}
		switch e.Action {
		case "retry": // deploy/with
			s.forget(of)
			s.retried[of] = e.Output
		case "pass", "fail", "skip":
			s.seconds[of] += e.Elapsed
			if e.Test != "" {
				s.ended[of] = e.Action
			}
		case "output":
			if e.Test == "" && strings.HasPrefix(e.Output, sampleLine) && len(s.retried) == 0 { // a second try says it again
				s.samples = append(s.samples, strings.TrimSpace(e.Output))
			}
		}
	}
}

// forget drops the results of a root test and its subtests.
func (s *suite) forget(root test) {
	maps.DeleteFunc(s.ended, func(t test, _ string) bool {
		return t == root || t.pkg == root.pkg && strings.HasPrefix(t.name, root.name+"/")
	})
}

// flaky returns the tests that passed in their second try.
func (s *suite) flaky() (tests []test) {
	for t := range s.retried {
		if s.ended[t] == "pass" {
			tests = append(tests, t)
		}
	}
	slices.SortFunc(tests, compareTests)
	return tests
}

func (s *suite) count(how string) (n int) {
	for _, action := range s.ended {
		if action == how {
			n++
		}
	}
	return n
}
