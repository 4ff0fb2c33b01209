// Command report closes a run of all suites. It reads what deploy/with --results kept
// of each, in the files that it is given, and prints the sums; --write puts them into a
// file, with the commit. It fails where a row of the design documents is named by tests
// (EE-14, TPM-29) and none of them passed:
//
//	go run ./deploy/report --write integration/results/full.txt .task/unit.json .task/local.json
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	into := flag.String("write", "", "the file to put it into")
	flag.Parse()
	if err := run(*into, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(into string, files []string) error {
	var suites []suite
	for _, file := range files {
		s, err := readSuite(file)
		if err != nil {
			return err
		}
		suites = append(suites, s)
	}
	named, err := rowsNamed(".")
	if err != nil {
		return err
	}
	var text bytes.Buffer
	missing := summarize(&text, suites, named)
	if _, err := os.Stdout.Write(text.Bytes()); err != nil {
		return err
	}
	if into != "" {
		if err := write(into, text.Bytes()); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("rows that tests name, and none that passed: %s", strings.Join(missing, ", "))
	}
	return nil
}

// summarize prints the sums and gives the rows that nothing showed.
func summarize(to io.Writer, suites []suite, named []naming) (missing []string) {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "suite\tpassed\tfailed\tskipped\ttime")
	for _, s := range suites {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\n", s.name, s.count("pass"), s.count("fail"), s.count("skip"), s.took().Round(time.Second))
	}
	_ = table.Flush() // to memory
	for _, s := range suites {
		for _, line := range s.samples {
			fmt.Fprintln(to, line)
		}
	}
	all, missing := shown(named, suites)
	fmt.Fprintf(to, "%d rows of the design documents are named by tests; passed: %d\n", all, all-len(missing))
	return missing
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
