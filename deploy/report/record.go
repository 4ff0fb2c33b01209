package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// recordsFolder has a record of the last deep run of each area.
const recordsFolder = "integration/results/deep"

// record is how the last deep run of an area ended.
type record struct {
	Area    string    `json:"area"`
	Sources string    `json:"sources"` // area.hash of what was tested
	Commit  string    `json:"commit"`  // that was checked out
	Began   time.Time `json:"began"`
	Seconds int       `json:"seconds"`
	Load    string    `json:"load"`           // of the machine when it began, of one, five and fifteen minutes
	Seed    string    `json:"seed,omitempty"` // if it was not the default
	Failed  []string  `json:"failed,omitempty"`
	Tests   []result  `json:"tests,omitempty"`
}

// result is how a test without its subtests ended.
type result struct {
	Suite   string  `json:"suite"` // unit, local, openstack, locks
	Package string  `json:"package"`
	Test    string  `json:"test"`
	Result  string  `json:"result"` // pass, fail or skip
	Seconds float64 `json:"seconds"`
	Tries   int     `json:"tries"`
}

// finish takes in what the stages of the area's run said. A test that failed, was skipped or did not run is a failure of the run.
func (r *record) finish(a *area, stages []stage) {
	ran := map[test]bool{}
	for _, s := range stages {
		r.Seconds += int(s.took / time.Second)
		var bad []string
		for _, t := range slices.SortedFunc(maps.Keys(s.ended), compareTests) {
			if strings.Contains(t.name, "/") {
				continue
			}
			one := result{Suite: s.name, Package: t.pkg, Test: t.name, Result: s.ended[t], Seconds: s.seconds[t], Tries: 1}
			if _, again := s.retried[t]; again {
				one.Tries = 2
			}
			r.Tests = append(r.Tests, one)
			ran[t] = true
			if one.Result != "pass" {
				bad = append(bad, t.name+" ("+one.Result+")")
			}
		}
		if s.err != nil || len(bad) > 0 {
			r.Failed = append(r.Failed, s.name+": "+cmp.Or(strings.Join(bad[:min(listed, len(bad))], ", "), fmt.Sprint(s.err)))
		}
	}
	for _, t := range a.beside {
		if !ran[t] {
			r.Failed = append(r.Failed, fmt.Sprintf("%s.%s did not run", t.pkg, t.name))
		}
	}
	for _, name := range a.endToEnd {
		if !ran[test{endToEnd, name}] {
			r.Failed = append(r.Failed, name+" did not run")
		}
	}
	if len(r.Tests) == 0 {
		r.Failed = append(r.Failed, "no test ran")
	}
}

func recordFile(root, area string) string { return filepath.Join(root, recordsFolder, area+".json") }

// text is the record as it is kept: each test in a line of its own.
func (r *record) text() ([]byte, error) {
	all := *r
	all.Tests = nil
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return nil, err
	}
	text = append(bytes.TrimSuffix(text, []byte("\n}")), ",\n \"tests\": ["...)
	var lines [][]byte
	for _, one := range r.Tests {
		line, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return slices.Concat(text, []byte("\n  "), bytes.Join(lines, []byte(",\n  ")), []byte("\n ]\n}\n")), nil
}

// write replaces the area's record.
func (r *record) write(root string) error {
	text, err := r.text()
	if err != nil {
		return err
	}
	file := recordFile(root, r.Area)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	draft := file + ".new"
	return errors.Join(os.WriteFile(draft, text, 0o644), os.Rename(draft, file))
}

// readRecord returns nil where there is none.
func readRecord(root, area string) (*record, error) {
	file := recordFile(root, area)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &r, nil
}

// state says what an area's last deep run is worth for the present files. green returns the record if all passed on them.
func (a *area) state(root string) (line string, green *record) {
	r, err := readRecord(root, a.Name)
	if err != nil {
		return "its record cannot be read: " + err.Error(), nil
	}
	if r == nil {
		return "NEVER RUN", nil
	}
	now, err := a.hash(root)
	if err != nil {
		return err.Error(), nil
	}
	when := fmt.Sprintf("%.12s, %s", r.Commit, r.Began.UTC().Format(time.DateOnly))
	switch {
	case now == r.Sources && len(r.Failed) > 0:
		return fmt.Sprintf("FAILED on these sources (%s): %s", when, strings.Join(r.Failed, "; ")), nil
	case now == r.Sources:
		return fmt.Sprintf("green for these sources (%s)", when), r
	}
	if files, err := a.changed(root, r.Commit); err == nil && len(files) > 0 { // a clone may be without that commit
		return fmt.Sprintf("STALE: %d of its files changed since its last run (%s)", len(files), when), nil
	}
	return fmt.Sprintf("STALE: its files or its tests changed since its last run (%s)", when), nil
}

// suite gives the tests of a record as a run of them would.
func (r *record) suite() suite {
	s := suite{name: "deep", ended: map[test]string{}}
	for _, one := range r.Tests {
		if t := (test{one.Package, one.Test}); s.ended[t] != "pass" {
			s.ended[t] = one.Result
		}
	}
	return s
}
