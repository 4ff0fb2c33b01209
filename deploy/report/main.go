// Command report runs tasks of Taskfile.yml one after the other, each to its end, and closes with the sums of what they said:
//
//	go run ./deploy/report lint unit integration:local
//	go run ./deploy/report --deep moves keys
//	go run ./deploy/report --deep --since origin/main
//
// It prints how each ended and how long it took, how the tests ended whose results were kept (deploy/with --results), which areas of the
// deep tests have a record for the present sources, and in its last line the sums. It fails if a task failed, and if tests that name a row of the design
// documents (EE-14, TPM-29) ran and none of them passed.
//
// With --deep it runs the deep tests of areas (integration/areas.yaml) and writes their records: of those that are named, of those whose files
// differ from a commit, or of all that have no green record for the present sources.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
)

// fullVariable is set, to anything, in deep runs: the tests have it as seed.FullVariable.
const fullVariable = "STRONGROOM_TEST_FULL"

// kept is the folder in which a task a:b keeps its results, in b.json.
const kept = ".task/results"

func main() {
	deep := flag.Bool("deep", false, "run deep tests")
	since := flag.String("since", "", "with --deep: of the areas whose files differ from this commit")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: report TASK…\n       report --deep [--since COMMIT] [AREA…]")
	}
	flag.Parse()
	if !*deep && flag.NArg() == 0 || *deep && *since != "" && flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	var ok bool
	var err error
	if *deep {
		ok, err = runDeep(flag.Args(), *since)
	} else {
		ok, err = run(flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run reports whether everything passed.
func run(tasks []string) (ok bool, err error) {
	named, err := rowsNamed(".")
	if err != nil {
		return false, err
	}
	areas, err := readAreas(".")
	if err != nil {
		return false, err
	}
	stages, err := runStages(kept, []string{"task"}, jobsOf(tasks...))
	if err != nil {
		return false, err
	}
	var text bytes.Buffer
	ok = summarize(&text, stages, named, printAreas(&text, ".", areas))
	if _, err := os.Stdout.Write(text.Bytes()); err != nil {
		return false, err
	}
	return ok, nil
}

// runDeep runs the deep tests of areas, and reports whether they passed.
func runDeep(names []string, since string) (ok bool, err error) {
	areas, err := readAreas(".")
	if err != nil {
		return false, err
	}
	chosen, err := choose(".", areas, names, since)
	if err != nil {
		return false, err
	}
	if len(chosen) == 0 {
		fmt.Fprintln(os.Stdout, "no area has anything to be run")
	}
	if ok, err = runAreas(os.Stdout, ".", kept, []string{"task"}, chosen); err != nil {
		return false, err
	}
	printAreas(os.Stdout, ".", areas)
	return ok, nil
}
