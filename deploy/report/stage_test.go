package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// events are those of a suite with a test that failed and passed the second time.
const events = `{"Action":"start","Package":"strongroom/p"}
{"Action":"output","Package":"strongroom/p","Output":"back end local, STRONGROOM_TEST_SEED=abc: 2 of 3 fault points\n"}
{"Action":"output","Package":"strongroom/p","Output":"  spawn: 2 of 3\n"}
{"Action":"output","Package":"strongroom/p","Test":"TestOne","Output":"back end of a test\n"}
{"Action":"pass","Package":"strongroom/p","Test":"TestOne","Elapsed":2}
{"Action":"pass","Package":"strongroom/p","Test":"TestOne/sub","Elapsed":1}
{"Action":"skip","Package":"strongroom/p","Test":"TestTwo"}
{"Action":"fail","Package":"strongroom/p","Test":"TestThree/sub","Elapsed":4}
{"Action":"fail","Package":"strongroom/p","Test":"TestThree","Elapsed":4}
{"Action":"fail","Package":"strongroom/p","Test":"TestThreeAndMore"}
{"Action":"fail","Package":"strongroom/p","Elapsed":9}
{"Action":"retry","Package":"strongroom/p","Test":"TestThree","Output":"it was late"}
{"Action":"pass","Package":"strongroom/p","Test":"TestThree","Elapsed":3}
{"Action":"pass","Package":"strongroom/p","Elapsed":3}
`

// Each stage is run to its end, whatever becomes of the others; results of an earlier run count for nothing.
func TestStagesAndSums(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("stages", `cd $(dirname $0)
case $1 in
lint) [ -e linted ] || { touch linted; exit 7; } ;;
integration:local) cp events local.json; exit 1 ;;
never) echo "cannot start"; exit 201 ;;
esac
`)
	write("events", events)
	write("never.json", events)
	stages, err := runStages(dir, []string{"sh", filepath.Join(dir, "stages")}, jobsOf("lint", "integration:local", "never", "lint", "without"))
	require.NoError(t, err)
	require.Len(t, stages, 5)
	for i := range stages {
		require.Positive(t, stages[i].took)
		stages[i].took = 83 * time.Second
	}
	var out bytes.Buffer
	rows := []naming{
		{[]string{"EE-01"}, []test{{"strongroom/p", "TestOne"}}}, {[]string{"EE-02", "EE-01"}, []test{{"strongroom/p", "TestThreeAndMore"}}},
		{[]string{"EE-03"}, []test{{"strongroom/p", "TestTwo"}}},
	}
	require.False(t, summarize(&out, stages, rows, nil))
	require.Equal(t, `stage    ended   time   passed  failed  skipped  flaky
lint     FAILED  1m23s  -       -       -        -
local    FAILED  1m23s  3       1       1        1
never    FAILED  1m23s  -       -       -        -
lint     ok      1m23s  -       -       -        -
without  FAILED  1m23s  -       -       -        -
back end local, STRONGROOM_TEST_SEED=abc: 2 of 3 fault points
slowest packages: p (local) 12 s
slowest tests: p.TestThree (local) 7 s, p.TestOne (local) 2 s, p.TestThreeAndMore (local) 0 s, p.TestTwo (local) 0 s
FLAKY strongroom/p.TestThree: local: it was late
3 rows of the design documents are named by tests; passed: 1; of which no test ran: EE-03
FAILED lint: exit status 7
FAILED local: exit status 1
FAILED never: exit status 201
FAILED without: it ran no tests
FAILED rows whose tests ran, and none passed: EE-02
list of tests: 4, SUM
3 passed, 5 failed, 1 flaky
`, regexp.MustCompile(`(list of tests: 4), [0-9a-f]{12}\n`).ReplaceAllString(out.String(), "$1, SUM\n"))

	out.Reset()
	require.True(t, summarize(&out, stages[3:4], nil, nil))
	require.Regexp(t, `\n0 passed, 0 failed\n$`, out.String())
	out.Reset()
	require.True(t, summarize(&out, stages[3:4], rows[2:], []suite{{ended: map[test]string{{"strongroom/p", "TestTwo"}: "pass"}}}))
	require.Regexp(t, `\n1 rows of the design documents are named by tests; passed: 0; in deep tests that are green for these sources: 1\n0 passed, 0 failed\n$`, out.String())
	out.Reset()
	stages[1].err = nil
	require.False(t, summarize(&out, stages[1:2], nil, nil), "a test failed")
}

// The sum of a list tells which tests ran in which suites, and neither how they ended nor their subtests.
func TestListOfTests(t *testing.T) {
	t.Parallel()
	of := func(name string, tests map[string]string) suite {
		s := suite{name: name, ended: map[test]string{}}
		for name, how := range tests {
			s.ended[test{"p", name}] = how
		}
		return s
	}
	n, sum := list([]suite{of("local", map[string]string{"TestA": "pass", "TestB": "pass", "TestB/one": "pass"})})
	require.Equal(t, 2, n)
	for want, same := range map[bool][]suite{
		true:  {of("local", map[string]string{"TestB": "fail", "TestA": "skip", "TestA/two": "pass"})},
		false: {of("local", map[string]string{"TestA": "pass"}), of("unit", map[string]string{"TestB": "pass"})},
	} {
		_, is := list(same)
		require.Equal(t, want, is == sum)
	}
	n, _ = list(nil)
	require.Zero(t, n)
}

// A signal reaches all processes of a stage, which ends in its own time, and no other stage is started.
func TestStagesStop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "stages")
	require.NoError(t, os.WriteFile(script, []byte(`cd $(dirname $0)
sh -c 'trap "sleep 0.2; touch tidy; exit 1" TERM; touch begun; while :; do sleep 0.05; done' &
trap "" TERM # as task, which passes nothing on
wait
`), 0o600))
	signals := make(chan os.Signal, 1)
	go func() {
		for _, err := os.Stat(filepath.Join(dir, "begun")); err != nil; _, err = os.Stat(filepath.Join(dir, "begun")) {
			time.Sleep(10 * time.Millisecond)
		}
		signals <- syscall.SIGTERM
	}()
	stopped, _ := runTask(signals, []string{"sh", script}, nil)
	require.True(t, stopped)
	require.FileExists(t, filepath.Join(dir, "tidy"))
}
