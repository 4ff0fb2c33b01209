package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// suite is how the tests of one run of `go test -json` ended.
type suite struct {
	name        string
	ended       map[test]string // pass, fail or skip
	samples     []string        // what the end-to-end suites say of their samples
	first, last time.Time
}

// test is a test or a subtest.
type test struct{ pkg, name string }

// sampleLine is how the end-to-end suites begin what they say of their samples.
const sampleLine = "back end "

func readSuite(path string) (suite, error) {
	s := suite{name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), ended: map[test]string{}}
	file, err := os.Open(path)
	if err != nil {
		return s, err
	}
	defer func() { _ = file.Close() }()
	for lines := json.NewDecoder(file); ; {
		var e struct {
			Time                          time.Time
			Action, Package, Test, Output string
		}
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			return s, nil
		} else if err != nil {
			return s, err
		}
		s.take(e.Time)
		switch e.Action {
		case "pass", "fail", "skip":
			if e.Test != "" {
				s.ended[test{e.Package, e.Test}] = e.Action
			}
		case "output":
			if e.Test == "" && strings.HasPrefix(e.Output, sampleLine) {
				s.samples = append(s.samples, strings.TrimSpace(e.Output))
			}
		}
	}
}

func (s *suite) take(at time.Time) {
	if at.IsZero() {
		return
	}
	if s.first.IsZero() {
		s.first = at
	}
	s.last = at
}

func (s *suite) took() time.Duration { return s.last.Sub(s.first) }

func (s *suite) count(how string) (n int) {
	for _, action := range s.ended {
		if action == how {
			n++
		}
	}
	return n
}
