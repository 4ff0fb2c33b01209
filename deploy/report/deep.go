package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// jobs are what a deep run of the area consists of.
func (a *area) jobs() (all []job) {
	common := []string{fullVariable + "=1", "STRONGROOM_TEST_INSTALLS=" + strings.Join(a.Installs, " ")}
	with := func(more ...string) []string { return slices.Concat(common, more) }
	for _, task := range a.Tasks {
		all = append(all, job{task: task, variables: with(), silent: true})
	}
	if len(a.Packages) > 0 {
		all = append(all, job{task: "unit", variables: with("STRONGROOM_TEST_PACKAGES=" + module + "/" + strings.Join(a.Packages, " "+module+"/"))})
	}
	if len(a.beside) > 0 {
		packages, names := map[string]bool{}, map[string]bool{}
		for _, one := range a.beside {
			packages[one.pkg], names[one.name] = true, true
		}
		all = append(all, job{task: "unit", variables: with("STRONGROOM_TEST_PACKAGES="+strings.Join(slices.Sorted(maps.Keys(packages)), " "), only(slices.Sorted(maps.Keys(names))))})
	}
	if len(a.endToEnd) > 0 {
		for _, task := range []string{"integration:local", "integration:openstack"} {
			all = append(all, job{task: task, variables: with(only(a.endToEnd))})
		}
	}
	return all
}

// only names the tests of a run, for deploy/with --only.
func only(tests []string) string {
	quoted := make([]string, len(tests))
	for i, one := range tests {
		quoted[i] = regexp.QuoteMeta(one)
	}
	return "STRONGROOM_TEST_ONLY=^(" + strings.Join(quoted, "|") + ")$"
}

// choose returns the areas of the given names; without names, those whose files differ from a commit, and without a commit all that are not
// green for the present sources.
func choose(root string, areas []*area, names []string, commit string) (chosen []*area, err error) {
	for _, name := range names {
		at := slices.IndexFunc(areas, func(a *area) bool { return a.Name == name })
		if at < 0 {
			var known []string
			for _, a := range areas {
				known = append(known, a.Name)
			}
			return nil, fmt.Errorf("there is no area %q; the areas are %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, areas[at])
	}
	if len(names) > 0 {
		return chosen, nil
	}
	for _, a := range areas {
		if commit != "" {
			files, err := a.changed(root, commit)
			if err != nil {
				return nil, err
			}
			if len(files) > 0 {
				chosen = append(chosen, a)
			}
			continue
		}
		_, green, err := a.state(root)
		if err != nil {
			return nil, err
		}
		if green == nil {
			chosen = append(chosen, a)
		}
	}
	return chosen, nil
}

// runAreas runs one area after the other, each to its end, and writes their records. A signal ends the one that runs, without a record.
func runAreas(to io.Writer, root, folder string, command []string, areas []*area) (ok bool, err error) {
	ok = true
	for i, a := range areas {
		fmt.Fprintf(to, "deep tests of %s (%d of %d): %s\n", a.Name, i+1, len(areas), a.About)
		r, err := a.record(root)
		if err != nil {
			return false, err
		}
		stages, err := runStages(folder, command, a.jobs())
		if err != nil {
			return false, err
		}
		r = newRecord(r, stages)
		if err := r.write(root); err != nil {
			return false, err
		}
		fmt.Fprintf(to, "deep tests of %s: %d tests in %s; %s\n", a.Name, len(r.Tests), time.Duration(r.Seconds)*time.Second, recordFile(root, a.Name))
		for _, s := range stages {
			for _, t := range s.flaky() {
				fmt.Fprintf(to, "FLAKY %s.%s: %s: %s\n", t.pkg, t.name, s.name, s.retried[t])
			}
		}
		for _, failure := range r.Failed {
			ok = false
			fmt.Fprintln(to, "FAILED", failure)
		}
	}
	return ok, nil
}

// record begins the record of a run.
func (a *area) record(root string) (r record, err error) {
	r = record{Area: a.Name, Began: time.Now().UTC().Truncate(time.Second)}
	if r.Sources, err = a.hash(root); err != nil {
		return r, err
	}
	if r.Changed, err = a.changed(root, ""); err != nil {
		return r, err
	}
	commit, err := git(root, "rev-parse", "HEAD")
	if err != nil {
		return r, err
	}
	r.Commit = strings.TrimSpace(commit)
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return r, err
	}
	r.Load = strings.Join(strings.Fields(string(load))[:3], " ")
	return r, nil
}

// printAreas prints the state of each area, and returns the records that are good for the present sources, as suites.
func printAreas(to io.Writer, root string, areas []*area) (deep []suite, err error) {
	for _, a := range areas {
		line, green, err := a.state(root)
		if err != nil {
			return nil, err
		}
		if green != nil {
			deep = append(deep, green.suite())
		}
		fmt.Fprintf(to, "deep tests of %s: %s\n", a.Name, line)
	}
	return deep, nil
}
