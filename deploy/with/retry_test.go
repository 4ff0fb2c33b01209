package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// planted is a package whose test ends as the variable FIRST says, and in a second try as SECOND says.
const planted = `package %s

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func do(t *testing.T, what string) {
	switch what {
	case "pass":
	case "fail":
		t.Error("\n\tError Trace:\there\n\tError:      \tReceived unexpected error:\n\t            \tit is late\n")
	case "break":
		t.Error("INVARIANT: two QEMUs ran the guest")
	case "panic":
		panic("no more")
	case "hang":
		time.Sleep(time.Hour)
	case "skip":
		t.Skip("nothing is here")
	case "die":
		os.Exit(3)
	}
}

func TestPlanted(t *testing.T) {
	if os.Getenv("STRONGROOM_TEST_RETRY") == "" {
		t.Run("sub", func(t *testing.T) { do(t, os.Getenv("FIRST")) })
		return
	}
	do(t, os.Getenv("SECOND"))
}

// TestOther notes that it was run.
func TestOther(t *testing.T) {
	file, _ := os.OpenFile(filepath.Join(os.Getenv("NOTES"), "other"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	file.WriteString("x")
}
`

// What may have failed by chance is run again; what cannot be chance fails the command at once.
func TestRetry(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("go.mod", "module strongroom\n\ngo 1.26.0\n")
	for _, pkg := range []string{"waits", "pure"} {
		write(pkg+"/x_test.go", fmt.Sprintf(planted, pkg))
	}
	write("broken/x_test.go", "package broken\n\nfunc f() { x }\n")
	t.Setenv("CI", "true")
	for name, c := range map[string]struct {
		pkg, first, second string
		arguments          []string
		only               string
		used               string // of flaky.txt
		passes             bool
		says               string
	}{
		"it passes the second time":   {pkg: "waits", first: "fail", second: "pass", passes: true, says: "FLAKY strongroom/waits.TestPlanted "},
		"it fails twice":              {pkg: "waits", first: "fail", second: "fail", says: "second try of TestPlanted failed, too"},
		"it is skipped then":          {pkg: "waits", first: "fail", second: "skip", says: "second try of TestPlanted failed, too"},
		"it breaks an invariant":      {pkg: "waits", first: "break", says: "no second try: TestPlanted found an invariant broken"},
		"it panics":                   {pkg: "waits", first: "panic", says: "no second try: strongroom/waits: panic: no more"},
		"it hangs":                    {pkg: "waits", first: "hang", arguments: []string{"-timeout=2s"}, says: "no second try: strongroom/waits: panic: test timed out"},
		"its program ends":            {pkg: "waits", first: "die", says: "no second try: "},
		"it needs no service":         {pkg: "pure", first: "fail", says: "no second try: TestPlanted of strongroom/pure is not listed"},
		"it is not built":             {pkg: "broken", says: "no second try: strongroom/broken: build failed"},
		"-run names it":               {pkg: "waits", first: "fail", second: "pass", arguments: []string{"-run=TestPlanted"}},
		"--only names it":             {pkg: "waits", first: "fail", second: "pass", only: "^(TestPlanted|TestOther)$", passes: true, says: "FLAKY strongroom/waits.TestPlanted "},
		"--only names another":        {pkg: "waits", first: "panic", only: "^(TestOther)$", passes: true},
		"it was flaky at two commits": {pkg: "waits", first: "fail", second: "pass", used: "strongroom/waits.TestPlanted a late\nstrongroom/waits.TestPlanted b late\n", says: "had a second try at two commits"},
		"it was flaky at one of them": {pkg: "waits", first: "fail", second: "pass", used: "strongroom/waits.TestPlanted a late\nstrongroom/waits.TestPlanted a late\n", passes: true},
		"nothing fails":               {pkg: "waits", first: "pass", passes: true},
		"flags are not -name=value":   {pkg: "waits", first: "fail", second: "pass", arguments: []string{"-timeout", "5m"}, says: ""},
		"it has other flags":          {pkg: "waits", first: "fail", second: "pass", arguments: []string{"-p=1", "-count=1"}, passes: true},
	} {
		t.Run(name, func(t *testing.T) {
			notes := t.TempDir()
			for variable, value := range map[string]string{"FIRST": c.first, "SECOND": c.second, "NOTES": notes} {
				t.Setenv(variable, value)
			}
			used := filepath.Join(notes, "flaky.txt")
			require.NoError(t, os.WriteFile(used, []byte(c.used), 0o600))
			command := append([]string{"go", "test", "-C=" + dir, "-json", "-vet=off"}, c.arguments...)
			var said bytes.Buffer
			starts := 0
			planted := service{"STRONGROOM_TEST_PLANTED", func(context.Context) (string, func() error, error) {
				starts++
				return fmt.Sprint(starts), func() error { return nil }, nil
			}}
			s := &suite{services: []service{planted}, command: append(command, "./"+c.pkg), only: c.only, retryable: patterns{"strongroom/waits": true, "strongroom/broken": true}, flaky: used, to: &said}
			file := filepath.Join(notes, "results.json")
			err := s.run(t.Context(), file)
			require.Equal(t, c.passes, err == nil, "%v\n%s", err, &said)
			require.Contains(t, said.String(), c.says)
			kept, readErr := os.ReadFile(file)
			require.NoError(t, readErr)
			retried := strings.Contains(said.String(), "with: second try: ")
			require.Equal(t, retried, strings.Contains(string(kept), `"Action":"retry"`))
			require.Equal(t, map[bool]int{false: 1, true: 2}[retried], starts, "a second try has new services")
			if c.passes && c.first == "fail" {
				require.True(t, retried)
				require.Contains(t, said.String(), " Received unexpected error: it is late\n", "the line has the error")
				others, err := os.ReadFile(filepath.Join(notes, "other"))
				require.NoError(t, err)
				require.Equal(t, "x", string(others), "nothing else runs in the second try")
			}
			if !c.passes && c.second != "skip" {
				var exit *exec.ExitError
				require.ErrorAs(t, err, &exit)
				require.Equal(t, 1, exit.ExitCode())
			}
		})
	}
}

// A failed test is run again only if all other tests came to their end.
func TestRetryNeedsAWholeRun(t *testing.T) {
	t.Parallel()
	const failed = `{"Action":"start","Package":"strongroom/p"}
{"Action":"run","Package":"strongroom/p","Test":"TestOne"}
{"Action":"fail","Package":"strongroom/p","Test":"TestOne"}
`
	const ended = `{"Action":"fail","Package":"strongroom/p"}` + "\n"
	for name, c := range map[string]struct {
		events, end string
		retried     bool
	}{
		"it is whole":                  {failed + ended, "exit 1", true},
		"go test is killed":            {failed + ended, "kill -9 $$", false},
		"go test ends with another":    {failed + ended, "exit 2", false},
		"its package does not end":     {failed, "exit 1", false},
		"another package does not end": {failed + ended + `{"Action":"start","Package":"strongroom/q"}` + "\n", "exit 1", false},
		"another test does not end":    {failed + `{"Action":"run","Package":"strongroom/p","Test":"TestTwo"}` + "\n" + ended, "exit 1", false},
		"a process is left":            {failed + `{"Action":"output","Package":"strongroom/p","Output":"*** Test I/O incomplete 60s after exiting.\n"}` + "\n" + ended, "exit 1", false},
		"the package saw it":           {failed + `{"Action":"output","Package":"strongroom/p","Output":"INVARIANT: something is left\n"}` + "\n" + ended, "exit 1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			events, script := filepath.Join(dir, "events"), filepath.Join(dir, "script")
			require.NoError(t, os.WriteFile(events, []byte(c.events), 0o600))
			require.NoError(t, os.WriteFile(script, []byte("cat "+events+"\n"+c.end+"\n"), 0o600))
			var said bytes.Buffer
			s := &suite{command: []string{"sh", script}, retryable: patterns{"strongroom/p": true}, to: &said}
			require.Error(t, s.run(t.Context(), filepath.Join(dir, "results.json")))
			require.Equal(t, c.retried, strings.Contains(said.String(), "with: second try: TestOne of strongroom/p"), said.String())
		})
	}
}

// A signal that comes before a second try ends the command.
func TestRetryEndsWithASignal(t *testing.T) {
	t.Parallel()
	s := &suite{signals: make(chan os.Signal, 1), to: io.Discard}
	require.False(t, s.interrupted())
	s.signals <- syscall.SIGTERM
	require.EqualError(t, s.attempt(t.Context(), []string{"false"}, nil, nil), "stopped")
	require.True(t, s.interrupted(), "it stays so")
}

// integration/seed knows the variable of a second try.
func TestRetryVariable(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../integration/seed/seed.go")
	require.NoError(t, err)
	require.Contains(t, string(source), `"`+retryVariable+`"`)
}

// With more failures than three, nothing is run again.
func TestRetriesOfManyFailures(t *testing.T) {
	t.Parallel()
	for n, tried := range map[int]bool{1: true, 3: true, 4: false} {
		o := newOutcome()
		o.packages["p"] = true
		for i := range n {
			o.failed[test{"p", fmt.Sprint("Test", i)}] = true
		}
		tests, reason := o.retries(patterns{"p": true}, nil)
		require.Equal(t, tried, len(tests) == n, reason)
		require.Equal(t, tried, reason == "")
	}
}

// The list names packages and tests that exist.
func TestRetryable(t *testing.T) {
	t.Parallel()
	w, err := readPatterns("retry.txt")
	require.NoError(t, err)
	require.Greater(t, len(w), 30)
	for name := range w {
		folder, one, named := strings.Cut(strings.TrimPrefix(name, "strongroom/"), ".")
		files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, name)
		if named {
			require.True(t, oneContains(t, files, "func "+one+"(t *testing.T)"), name)
		}
	}
	require.True(t, w.match(test{"strongroom/workflows", "TestOnAServer"}))
	require.False(t, w.match(test{"strongroom/workflows", "TestReplay"}))
	require.False(t, w.match(test{"strongroom/compute", "TestSchedule"}))
}

func oneContains(t *testing.T, files []string, text string) bool {
	t.Helper()
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(source), text) {
			return true
		}
	}
	return false
}
