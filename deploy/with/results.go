package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// event is a line that `go test -json` prints.
type event struct {
	Action, Package, Test, Output string
}

// results keeps in a file what `go test -json` says, and prints of it what `go test`
// would: of packages that pass what they said themselves, and all that a test said
// that fails or is skipped; with -v, everything as it comes.
type results struct {
	file    *os.File
	to      io.Writer
	verbose bool
	said    map[[2]string][]string // by package and test
	skipped int
}

func newResults(path string, to io.Writer) (*results, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(path)
	return &results{file: file, to: to, said: map[[2]string][]string{}}, err
}

// keepResults has the command's output read and kept. What it gives waits for the end
// of both.
func keepResults(command *exec.Cmd, path string) (wait func() error, err error) {
	r, err := newResults(path, os.Stdout)
	if err != nil {
		return nil, err
	}
	r.verbose = slices.Contains(command.Args, "-v")
	command.Stdout = nil
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return func() error {
		if err := errors.Join(r.read(out), command.Wait()); err != nil {
			return err
		}
		if r.skipped > 0 && os.Getenv("CI") != "" {
			return fmt.Errorf("%d tests were skipped, which is a failure in CI", r.skipped)
		}
		return nil
	}, nil
}

// read reads to the end of what the command says.
func (r *results) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if err := r.line(line); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return r.file.Close()
		}
		if err != nil {
			return err
		}
	}
}

func (r *results) line(line string) error {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil {
		fmt.Fprint(r.to, line)
		return nil //nolint:nilerr // it is go's own word, and no event
	}
	of := [2]string{e.Package, e.Test}
	switch {
	case e.Action == "build-output":
		fmt.Fprint(r.to, e.Output)
	case e.Action == "output" && r.verbose:
		fmt.Fprint(r.to, e.Output)
	case e.Action == "output" && e.Test == "":
		if e.Output != "PASS\n" && !strings.HasSuffix(e.Output, "[no test files]\n") {
			fmt.Fprint(r.to, e.Output)
		}
	case e.Action == "output":
		r.said[of] = append(r.said[of], e.Output)
	case e.Test != "" && (e.Action == "fail" || e.Action == "skip"):
		if e.Action == "skip" {
			r.skipped++
		}
		fmt.Fprint(r.to, strings.Join(r.said[of], ""))
		delete(r.said, of)
	case e.Test != "" && e.Action == "pass":
		delete(r.said, of)
	}
	_, err := r.file.WriteString(line)
	return err
}
