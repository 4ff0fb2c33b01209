package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const said = `{"Action":"output","Package":"p","Output":"seed 7\n"}
{"Action":"output","Package":"p","Test":"TestFine","Output":"not a word\n"}
{"Action":"pass","Package":"p","Test":"TestFine"}
{"Action":"output","Package":"p","Test":"TestBad/sub","Output":"    why it fails\n"}
{"Action":"output","Package":"p","Test":"TestBad","Output":"--- FAIL: TestBad\n"}
{"Action":"fail","Package":"p","Test":"TestBad/sub"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"output","Package":"p","Test":"TestOther","Output":"needs a cloud\n"}
{"Action":"skip","Package":"p","Test":"TestOther"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t1s\n"}
{"Action":"skip","Package":"empty"}
`

func TestResultsAreKeptAndPrintedForPeople(t *testing.T) {
	t.Parallel()
	path, printed := filepath.Join(t.TempDir(), "new", "results.json"), bytes.Buffer{}
	r, err := newResults(path, &printed)
	require.NoError(t, err)
	require.NoError(t, r.read(strings.NewReader("go: a word of its own\n"+said)))
	require.Equal(t, "go: a word of its own\nseed 7\n    why it fails\n--- FAIL: TestBad\nneeds a cloud\nok  \tp\t1s\n", printed.String())
	require.Equal(t, 1, r.skipped)

	printed.Reset()
	again, err := newResults(path, &printed)
	require.NoError(t, err)
	again.verbose = true
	require.NoError(t, again.read(strings.NewReader(said)))
	require.Equal(t, "seed 7\nnot a word\n    why it fails\n--- FAIL: TestBad\nneeds a cloud\nPASS\nok  \tp\t1s\n", printed.String())
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strings.Split(said, "\n"), strings.Split(string(kept), "\n"))
}

// In CI a test that is skipped is a failure, and the command's exit code is what it was.
func TestSkipsAreFailuresInCI(t *testing.T) {
	file := filepath.Join(t.TempDir(), "said")
	require.NoError(t, os.WriteFile(file, []byte(said), 0o600))
	end := func(command ...string) error {
		return (&suite{command: command, to: io.Discard}).run(t.Context(), filepath.Join(t.TempDir(), "results.json"))
	}
	t.Setenv("CI", "")
	require.NoError(t, end("cat", file))
	t.Setenv("CI", "true")
	require.ErrorContains(t, end("cat", file), "1 tests were skipped")
	require.NoError(t, end("true"))
	var exit *exec.ExitError
	require.ErrorAs(t, end("sh", "-c", "cat "+file+"; exit 3"), &exit)
	require.Equal(t, 3, exit.ExitCode())
}
