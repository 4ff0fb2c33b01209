package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
- {name: moves, about: moves of servers, sources: ["work/{move,drain}.go"], suites: [move, live_move], tests: [api.TestScript], installs: [ceph, network], tasks: [before]}
- {name: workflows, about: workflows, sources: [work], packages: [work]}
`)
	r.write("work/move.go", "package work")
	r.write("work/drain.go", "package work")
	r.write("work/other.go", "package work")
	r.write("api/script_test.go", "package api\nfunc TestScript(t *testing.T) {}\nfunc TestOther(t *testing.T) {}")
	r.write("host/main_test.go", "package host\nfunc TestMain(m *testing.M) { seed.Deep(\"moves\", TestLive, TestCold); os.Exit(m.Run()) }")
	r.write("host/host_test.go", "package host\nfunc TestLive(t *testing.T) {}\nfunc TestCold(t *testing.T) {}\nfunc TestFast(t *testing.T) {}")
	r.write("integration/move_test.go", "package integration\nfunc TestMove(t *testing.T) {}")
	r.write("integration/live_move_test.go", "package integration\nfunc TestLiveMove(t *testing.T) {}")
	r.write("integration/helper_test.go", "package integration\nfunc help() {}")
	r.write("stages", `cd $(dirname $0)
echo "$1|$STRONGROOM_TEST_FULL|$STRONGROOM_TEST_INSTALLS|$STRONGROOM_TEST_PACKAGES|$STRONGROOM_TEST_ONLY" >> jobs
[ $1 = before ] || cp said kept/${1#*:}.json
[ ! -e broken ]
`)
	r.write("said", `{"Action":"pass","Package":"strongroom/integration","Test":"TestMove/sub","Elapsed":1}
{"Action":"pass","Package":"strongroom/integration","Test":"TestMove","Elapsed":2}
`)
	r.write("kept/.keep", "")
	r.write(".gitignore", "/jobs\n/broken\n/kept\n/integration/results\n")
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
	_, err := printAreas(&to, r.root, r.areas())
	require.NoError(r.t, err)
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
		"before|1|ceph network||",
		"unit|1|ceph network|strongroom/api strongroom/host|^(TestCold|TestLive|TestScript)$",
		"integration:local|1|ceph network||^(TestLiveMove|TestMove)$",
		"integration:openstack|1|ceph network||^(TestLiveMove|TestMove)$",
		"unit|1||strongroom/work|",
	}, jobs)
	green := `deep tests of moves: green for these sources \(\w{12}, 20\d\d-\d\d-\d\d\)\n`
	require.Regexp(t, "^"+green+"deep tests of workflows: green ", r.states())
	chosen, err = choose(r.root, r.areas(), nil, "")
	require.NoError(t, err)
	require.Empty(t, chosen, "nothing is left to be run")
	record, err := readRecord(r.root, "moves")
	require.NoError(t, err)
	require.Len(t, record.Tests, 3, "of each suite, without subtests")
	require.Equal(t, result{Suite: "local", Package: endToEnd, Test: "TestMove", Result: "pass", Seconds: 2, Tries: 1}, record.Tests[0])

	r.write("work/other.go", "package work // another")
	r.commit()
	require.Regexp(t, "^"+green+`deep tests of workflows: STALE: 1 of its files changed since its last run `, r.states())
	chosen, err = choose(r.root, r.areas(), nil, "HEAD~1")
	require.NoError(t, err)
	require.Len(t, chosen, 1)
	for _, file := range []string{"work/drain.go", "host/host_test.go", "api/script_test.go", "integration/move_test.go"} {
		was, err := os.ReadFile(filepath.Join(r.root, file))
		require.NoError(t, err)
		r.write(file, string(was)+"\n// another")
		r.commit()
		require.Contains(t, r.states(), "deep tests of moves: STALE: 1 of its files", file)
		r.write(file, string(was))
		r.commit()
		require.Regexp(t, "^"+green, r.states(), file)
	}

	// What is not committed is tested, but nobody else has it.
	r.write("work/move.go", "package work // another")
	ok, _, _ = r.run(r.areas()[:1])
	require.True(t, ok)
	require.Contains(t, r.states(), "deep tests of moves: STALE: its last run (")
	r.commit()
	r.write("broken", "")
	ok, printed, _ = r.run(r.areas()[:1])
	require.False(t, ok)
	require.Contains(t, printed, "FAILED local: exit status 1")
	require.Contains(t, r.states(), "deep tests of moves: FAILED on these sources (")
	_, err = choose(r.root, r.areas(), []string{"move"}, "")
	require.ErrorContains(t, err, `there is no area "move"; the areas are moves, workflows`)
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
	require.ErrorContains(t, err, "moves: :(top,glob)work/gone.go matches no file")
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
}
