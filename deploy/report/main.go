// Command report runs tasks of Taskfile.yml one after the other, each to its end, and closes with the sums of what they said:
//
//	go run ./deploy/report --write integration/results/full.txt lint unit integration:local
//
// It prints how each ended and how long it took, how the tests ended whose results were kept (deploy/with --results), and in its last line
// the sums. --write puts all that into a file, with the commit. It fails if a task failed, and if tests that name a row of the design
// documents (EE-14, TPM-29) ran and none of them passed. In a full run (STRONGROOM_TEST_FULL) it fails, too, if no test of a row ran.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// fullVariable is set, to anything, in a full run: the tests have it as seed.FullVariable.
const fullVariable = "STRONGROOM_TEST_FULL"

// kept is the folder in which a task a:b keeps its results, in b.json.
const kept = ".task/results"

func main() {
	into := flag.String("write", "", "the file to put it into")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: report [--write FILE] TASK…")
		os.Exit(2)
	}
	ok, err := run(*into, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run reports whether everything passed.
func run(into string, tasks []string) (ok bool, err error) {
	named, err := rowsNamed(".")
	if err != nil {
		return false, err
	}
	stages, err := runStages(kept, []string{"task"}, tasks)
	if err != nil {
		return false, err
	}
	var text bytes.Buffer
	ok = summarize(&text, stages, named, os.Getenv(fullVariable) != "")
	if _, err := os.Stdout.Write(text.Bytes()); err != nil {
		return false, err
	}
	if into != "" {
		return ok, write(into, text.Bytes())
	}
	return ok, nil
}

// write puts the report below the commit that it is about.
func write(path string, report []byte) error {
	commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		return err
	}
	changes, err := exec.Command("git", "status", "--porcelain", "--", ".", ":!"+path).Output()
	if err != nil {
		return err
	}
	head := fmt.Sprintf("commit %s\n", bytes.TrimSpace(commit))
	if len(changes) > 0 {
		head += "with changes:\n" + string(changes)
	}
	head += time.Now().UTC().Format("2006-01-02 15:04 UTC") + "\n\n"
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, slices.Concat([]byte(head), report), 0o644)
}
