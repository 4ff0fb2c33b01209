package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
	Sources string    `json:"sources"`           // area.hash of what was tested
	Changed []string  `json:"changed,omitempty"` // files of it that were not in the index: such a record is good for nothing else
	Commit  string    `json:"commit"`
	Began   time.Time `json:"began"`
	Seconds int       `json:"seconds"`
	Load    string    `json:"load"` // of the machine when it began, of one, five and fifteen minutes
	Failed  []string  `json:"failed,omitempty"`
	Samples []string  `json:"samples,omitempty"` // what the suites say of theirs
	Tests   []result  `json:"tests"`
}

// result is how a test without its subtests ended.
type result struct {
	Suite   string  `json:"suite"` // unit, local, openstack
	Package string  `json:"package"`
	Test    string  `json:"test"`
	Result  string  `json:"result"` // pass, fail or skip
	Seconds float64 `json:"seconds"`
	Tries   int     `json:"tries"`
}

// newRecord takes in what the stages of an area's run said.
func newRecord(r record, stages []stage) record {
	for _, s := range stages {
		r.Seconds += int(s.took / time.Second)
		if s.err == nil && s.count("fail") > 0 {
			s.err = fmt.Errorf("%d tests failed", s.count("fail"))
		}
		if s.err != nil {
			r.Failed = append(r.Failed, fmt.Sprintf("%s: %v", s.name, s.err))
		}
		r.Samples = append(r.Samples, s.samples...)
		for t, ended := range s.ended {
			if strings.Contains(t.name, "/") {
				continue
			}
			one := result{Suite: s.name, Package: t.pkg, Test: t.name, Result: ended, Seconds: s.seconds[t], Tries: 1}
			if _, again := s.retried[t]; again {
				one.Tries = 2
			}
			r.Tests = append(r.Tests, one)
		}
	}
	slices.SortFunc(r.Tests, func(a, b result) int {
		return cmp.Or(strings.Compare(a.Suite, b.Suite), strings.Compare(a.Package, b.Package), strings.Compare(a.Test, b.Test))
	})
	if len(r.Tests) == 0 && len(r.Failed) == 0 {
		r.Failed = []string{"it ran no tests"}
	}
	return r
}

func recordFile(root, area string) string { return filepath.Join(root, recordsFolder, area+".json") }

// write replaces the area's record.
func (r *record) write(root string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	file := recordFile(root, r.Area)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
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

// state says what an area's last deep run is worth for the present sources. green returns the record if all passed on them.
func (a *area) state(root string) (line string, green *record, err error) {
	r, err := readRecord(root, a.Name)
	if err != nil || r == nil {
		return "NEVER RUN", nil, err
	}
	now, err := a.hash(root)
	if err != nil {
		return "", nil, err
	}
	when := fmt.Sprintf("%.12s, %s", r.Commit, r.Began.UTC().Format(time.DateOnly))
	switch {
	case len(r.Changed) > 0:
		return fmt.Sprintf("STALE: its last run (%s) had files that were not committed", when), nil, nil
	case now != r.Sources:
		if files, err := a.changed(root, r.Commit); err == nil { // a clone may be without that commit
			return fmt.Sprintf("STALE: %d of its files changed since its last run (%s)", len(files), when), nil, nil
		}
		return fmt.Sprintf("STALE: its files changed since its last run (%s)", when), nil, nil
	case len(r.Failed) > 0:
		return fmt.Sprintf("FAILED on these sources (%s): %s", when, strings.Join(r.Failed, "; ")), nil, nil
	default:
		return fmt.Sprintf("green for these sources (%s)", when), r, nil
	}
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
