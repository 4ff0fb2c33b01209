package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// optionalServices are those of a test's cloud that not every area needs.
var optionalServices = []string{"manila", "ceph", "cinder"}

// jobs are what a deep run of the area consists of.
func (a *area) jobs() (all []job) {
	for _, task := range a.Tasks {
		all = append(all, job{task: task, withoutResults: true})
	}
	without := slices.DeleteFunc(slices.Clone(optionalServices), func(service string) bool { return slices.Contains(a.Services, service) })
	// A task takes an empty variable for one that is not set: so there is always something in these two.
	run := func(task string, variables ...string) {
		all = append(all, job{task: task, variables: slices.Concat([]string{
			fullVariable + "=1",
			"STRONGROOM_TEST_INSTALLS=" + strings.Join(append([]string{"test"}, a.Installs...), " "),
			"STRONGROOM_TEST_WITHOUT=" + cmp.Or(strings.Join(without, ","), "none"),
		}, variables)})
	}
	if len(a.Packages) > 0 {
		run("unit", packagesVariable+"="+module+"/"+strings.Join(a.Packages, " "+module+"/"))
	}
	if len(a.beside) > 0 {
		packages, names := map[string]bool{}, map[string]bool{}
		for _, one := range a.beside {
			packages[one.pkg], names[one.name] = true, true
		}
		run("unit", packagesVariable+"="+strings.Join(slices.Sorted(maps.Keys(packages)), " "), only(slices.Sorted(maps.Keys(names))))
	}
	if len(a.endToEnd) > 0 {
		run("integration:local", only(a.endToEnd))
		run("integration:openstack", only(a.endToEnd))
	}
	return all
}

// only names the tests of a run, for deploy/with --only.
func only(tests []string) string {
	quoted := make([]string, len(tests))
	for i, one := range tests {
		quoted[i] = regexp.QuoteMeta(one)
	}
	return onlyVariable + "=^(" + strings.Join(quoted, "|") + ")$"
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
		if _, green := a.state(root); green == nil {
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
		if after, err := a.hash(root); err != nil || after != r.Sources {
			r.Failed = append(r.Failed, "its files changed during the run")
		}
		r.finish(a, stages)
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
	r = record{Area: a.Name, Began: time.Now().UTC().Truncate(time.Second), Seed: os.Getenv("STRONGROOM_TEST_SEED")}
	if r.Sources, err = a.hash(root); err != nil {
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

// printAreas prints the state of each area, and returns the records that are good for the present files, as suites.
func printAreas(to io.Writer, root string, areas []*area) (deep []suite) {
	for _, a := range areas {
		line, green := a.state(root)
		if green != nil {
			deep = append(deep, green.suite())
		}
		fmt.Fprintf(to, "deep tests of %s: %s\n", a.Name, line)
	}
	return deep
}
