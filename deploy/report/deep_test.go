package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/source"
)

// repository is one with two areas. Its tasks are a script, and so are their results.
type repository struct {
	t    *testing.T
	root string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t, t.TempDir()}
	r.write(areasFile, `
- {name: moves, about: moves of servers, sources: ["work/{move,drain}.go"], suites: [move, live_move], tests: [api.TestScript, work.TestWork], services: [ceph], installs: [ceph, network], tasks: [before]}
- {name: workflows, about: workflows, sources: [work], packages: [work], tests: [work.TestWork]}
`)
	r.write("work/move.go", "package work")
	r.write("work/drain.go", "package work")
	r.write("work/other.go", "package work")
	r.write("work/work_test.go", "package work\nfunc TestWork(t *testing.T) {}")
	r.write("api/script_test.go", "package api\nfunc TestScript(t *testing.T) {}\nfunc TestOther(t *testing.T) {}")
	r.write("host/main_test.go", "package host\nfunc TestMain(m *testing.M) { seed.Deep(\"moves\", TestLive, TestCold); os.Exit(m.Run()) }")
	r.write("host/host_test.go", "package host\nfunc TestLive(t *testing.T) {}\nfunc TestCold(t *testing.T) {}\nfunc TestFast(t *testing.T) {}")
	r.write("integration/move_test.go", "package integration\nfunc TestMove(t *testing.T) {}")
	r.write("integration/live_move_test.go", "package integration\nfunc TestLiveMove(t *testing.T) {}")
	r.write("integration/helper_test.go", "package integration\nfunc help() {}")
	r.write("stages", `cd $(dirname $0)
echo "$1|$STRONGROOM_TEST_BACKEND|$STRONGROOM_TEST_FULL|$STRONGROOM_TEST_INSTALLS|$STRONGROOM_TEST_WITHOUT|$STRONGROOM_TEST_PACKAGES|$STRONGROOM_TEST_ONLY" >> jobs
[ $1 = before ] || cp said-${1#*:} kept/${1#*:}.json
[ ! -e edit ] || sh edit
[ ! -e broken ]
`)
	r.said("unit", "strongroom/host.TestCold pass", "strongroom/host.TestLive pass", "strongroom/api.TestScript pass", "strongroom/work.TestWork pass")
	r.said("local", "strongroom/integration.TestMove/sub pass", "strongroom/integration.TestMove pass")
	r.said("openstack", "strongroom/integration.TestMove pass", "strongroom/integration.TestLiveMove pass")
	r.write("kept/.keep", "")
	r.write(".gitignore", "/jobs\n/broken\n/edit\n/said-*\n/kept\n/integration/results\n")
	r.git("init", "-q")
	r.git("add", ".")
	r.commit()
	return r
}

func (r *repository) write(name, text string) {
	r.t.Helper()
	file := filepath.Join(r.root, name)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(r.t, os.WriteFile(file, []byte(text), 0o600))
}

// said has a task keep how tests ended, each after two seconds.
func (r *repository) said(task string, tests ...string) {
	r.t.Helper()
	text := ""
	for _, one := range tests {
		name, ended, _ := strings.Cut(one, " ")
		at := strings.LastIndex(name, ".")
		text += fmt.Sprintf("{\"Action\":%q,\"Package\":%q,\"Test\":%q,\"Elapsed\":2}\n", ended, name[:at], name[at+1:])
	}
	r.write("said-"+task, text)
}

func (r *repository) git(arguments ...string) {
	r.t.Helper()
	command := exec.CommandContext(r.t.Context(), "git", append([]string{"-c", "user.name=x", "-c", "user.email=x@x"}, arguments...)...)
	command.Dir = r.root
	out, err := command.CombinedOutput()
	require.NoError(r.t, err, string(out))
}

func (r *repository) commit() { r.t.Helper(); r.git("commit", "-q", "-a", "-m", "x") }

func (r *repository) areas() []*area {
	r.t.Helper()
	areas, err := readAreas(r.root)
	require.NoError(r.t, err)
	return areas
}

// run runs the areas, and returns what it prints and the jobs.
func (r *repository) run(areas []*area) (ok bool, printed string, jobs []string) {
	r.t.Helper()
	file := filepath.Join(r.root, "jobs")
	require.NoError(r.t, os.RemoveAll(file))
	var to bytes.Buffer
	ok, err := runAreas(&to, r.root, filepath.Join(r.root, "kept"), []string{"sh", filepath.Join(r.root, "stages")}, areas)
	require.NoError(r.t, err)
	text, err := os.ReadFile(file)
	require.NoError(r.t, err)
	return ok, to.String(), strings.Split(strings.TrimSpace(string(text)), "\n")
}

// states are the areas' lines in ./task test.
func (r *repository) states() string {
	r.t.Helper()
	var to bytes.Buffer
	printAreas(&to, r.root, r.areas())
	return to.String()
}

// A deep run has all tests of its area, each in its suites, and leaves a record, which says until one of its files changes that they passed.
func TestDeepRunsAndTheirRecords(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	require.Equal(t, "deep tests of moves: NEVER RUN\ndeep tests of workflows: NEVER RUN\n", r.states())
	chosen, err := choose(r.root, r.areas(), nil, "")
	require.NoError(t, err)
	require.Len(t, chosen, 2)
	ok, printed, jobs := r.run(chosen)
	require.True(t, ok, printed)
	require.Equal(t, []string{
		"before||||||",
		"unit||1|test ceph network|manila,cinder|strongroom/api strongroom/host strongroom/work|^(TestCold|TestLive|TestScript|TestWork)$",
		"integration:local|local|1|test ceph network|manila,cinder||^(TestLiveMove|TestMove)$",
		"integration:openstack|openstack|1|test ceph network|manila,cinder||^(TestLiveMove|TestMove)$",
		"unit||1|test|manila,ceph,cinder|strongroom/work|",
	}, jobs)
	const green = `deep tests of moves: green for these sources \(\w{12}, 20\d\d-\d\d-\d\d\)\n`
	require.Regexp(t, "^"+green+"deep tests of workflows: green ", r.states())
	chosen, err = choose(r.root, r.areas(), nil, "")
	require.NoError(t, err)
	require.Empty(t, chosen, "nothing is left to be run")
	record, err := readRecord(r.root, "moves")
	require.NoError(t, err)
	require.Len(t, record.Tests, 7, "of each suite, without subtests")
	require.Equal(t, result{Suite: "local", Package: endToEnd, Test: "TestMove", Result: "pass", Seconds: 2, Tries: 1}, record.Tests[4])

	r.write("work/other.go", "package work // another")
	require.Regexp(t, "^"+green+`deep tests of workflows: STALE: 1 of its files changed since its last run `, r.states())
	chosen, err = choose(r.root, r.areas(), nil, "HEAD")
	require.NoError(t, err)
	require.Len(t, chosen, 1)
	for _, file := range []string{"work/drain.go", "host/host_test.go", "api/script_test.go", "integration/move_test.go"} {
		was, err := os.ReadFile(filepath.Join(r.root, file))
		require.NoError(t, err)
		r.write(file, string(was)+"\n// another")
		require.Contains(t, r.states(), "deep tests of moves: STALE: 1 of its files", file)
		r.commit()
		require.Contains(t, r.states(), "deep tests of moves: STALE: 1 of its files", file)
		r.write(file, string(was))
		require.Regexp(t, "^"+green, r.states(), file)
	}
	r.write("host/main_test.go", "package host\nfunc TestMain(m *testing.M) { seed.Deep(\"moves\", TestLive, TestCold, TestFast); os.Exit(m.Run()) }")
	require.Contains(t, r.states(), "deep tests of moves: STALE: its files or its tests changed", "another test is deep")
	_, err = choose(r.root, r.areas(), []string{"move"}, "")
	require.ErrorContains(t, err, `there is no area "move"; the areas are moves, workflows`)
}

// A record is green only if each test of the area ran and passed, on files that stayed as they were.
func TestRecordsThatAreNotGreen(t *testing.T) {
	t.Parallel()
	for failure, spoil := range map[string]func(r *repository){
		"local: exit status 1":           func(r *repository) { r.write("broken", "") },
		"local: TestMove (fail)":         func(r *repository) { r.said("local", "strongroom/integration.TestMove fail") },
		"local: TestMove (skip)":         func(r *repository) { r.said("local", "strongroom/integration.TestMove skip") },
		"TestLiveMove did not run":       func(r *repository) { r.said("openstack", "strongroom/integration.TestMove pass") },
		"host.TestLive did not run":      func(r *repository) { r.said("unit", "strongroom/host.TestCold pass") },
		"its files changed during the":   func(r *repository) { r.write("edit", "echo // another >> work/move.go") },
		"before: exit status 1; unit: e": func(r *repository) { r.write("broken", "") },
	} {
		r := newRepository(t)
		spoil(r)
		ok, printed, _ := r.run(r.areas()[:1])
		require.False(t, ok, failure)
		record, err := readRecord(r.root, "moves")
		require.NoError(t, err)
		require.Contains(t, strings.Join(record.Failed, "; "), failure)
		require.Contains(t, printed, "\nFAILED ")
		require.NotContains(t, r.states(), "green", failure)
	}
	r := newRepository(t)
	r.write(recordFile("", "moves"), "<<<<<<< HEAD")
	require.Contains(t, r.states(), "deep tests of moves: its record cannot be read: ")
}

// A name that is wrong is an error, and nothing is left out because of it.
func TestAreasThatAreWrong(t *testing.T) {
	t.Parallel()
	for wrong, c := range map[string]struct{ file, text string }{
		"suite new is in no area": {"integration/new_test.go", "package integration\nfunc TestNew(t *testing.T) {}"},
		`host/more_test.go: seed.Deep has the area "movies", which is not there`: {"host/more_test.go", "package host\nfunc init() { seed.Deep(\"movies\", TestLive) }"},
		"moves: there is no test strongroom/host.TestGone":                       {"host/more_test.go", "package host\nfunc init() { seed.Deep(\"moves\", TestGone) }"},
		"moves: there are no tests in integration/gone_test.go":                  {areasFile, "- {name: moves, suites: [move, live_move, gone]}"},
		"suite move is in moves and in others":                                   {areasFile, "- {name: moves, suites: [move, live_move]}\n- {name: others, suites: [move]}"},
		"field suits not found":                                                  {areasFile, "- {name: moves, suits: [move]}"},
	} {
		r := newRepository(t)
		r.write(c.file, c.text)
		_, err := readAreas(r.root)
		require.ErrorContains(t, err, wrong)
	}
	r := newRepository(t)
	r.write(areasFile, "- {name: moves, sources: [work/gone.go], suites: [move, live_move]}")
	_, err := r.areas()[0].hash(r.root)
	require.ErrorContains(t, err, "moves: work/gone.go matches no file")
}

// The areas of this repository name what is there.
func TestAreasOfThisRepository(t *testing.T) {
	t.Parallel()
	areas, err := readAreas("../..")
	require.NoError(t, err)
	for _, a := range areas {
		_, err := a.hash("../..")
		require.NoError(t, err)
		require.NotEmpty(t, a.About)
		require.NotEmpty(t, a.jobs(), a.Name)
	}
	// Who asks whether all cases are wanted has more of them in a deep run, and is in an area.
	require.NoError(t, source.GoFiles("../..", func(name string, text []byte) error {
		if !strings.HasSuffix(name, "_test.go") || !bytes.Contains(text, []byte(`os.Getenv("`+fullVariable+`")`)) {
			return nil
		}
		pkg := path.Join(module, strings.TrimPrefix(path.Dir(name), "../../"))
		require.True(t, slices.ContainsFunc(areas, func(a *area) bool {
			return slices.Contains(a.Packages, strings.TrimPrefix(pkg, module+"/")) || slices.ContainsFunc(a.beside, func(t test) bool { return t.pkg == pkg })
		}), name)
		return nil
	}))
}
