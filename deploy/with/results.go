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
	ImportPath                    string `json:",omitempty"` // of what is built
}

// test is a test or a subtest of a package.
type test struct{ pkg, name string }

// root gives the top-level test that a test belongs to.
func (t test) root() test {
	name, _, _ := strings.Cut(t.name, "/")
	return test{t.pkg, name}
}

// results keeps in a file what `go test -json` says, and prints of it what `go test`
// would: of packages that pass what they said themselves, and all that a test said
// that fails or is skipped; with -v, everything as it comes. It reads one command
// after the other.
type results struct {
	name       string // of the suite: the file's, without .json
	file       *os.File
	to         io.Writer
	verbose    bool
	said       map[test][]string
	skipped    int
	incomplete bool // the output of a command was not read to its end
	outcome
}

func newResults(path string, to io.Writer) (*results, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(path)
	return &results{name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), file: file, to: to, said: map[test][]string{}, outcome: newOutcome()}, err
}

// follow reads the output of a command that is not started yet. wait returns when the
// output and the command have ended.
func (r *results) follow(command *exec.Cmd) (wait func() error, err error) {
	r.verbose = slices.Contains(command.Args, "-v")
	command.Stdout = nil
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return func() error {
		err := r.read(out)
		r.incomplete = err != nil
		return errors.Join(err, command.Wait())
	}, nil
}

// close returns an error if a test was skipped, which is a failure in CI.
func (r *results) close() error {
	if r.skipped > 0 && os.Getenv("CI") != "" {
		return errors.Join(r.file.Close(), fmt.Errorf("%d tests were skipped, which is a failure in CI", r.skipped))
	}
	return r.file.Close()
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
			return nil
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
	r.note(e)
	of := test{e.Package, e.Test}
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

// add writes an event of our own into the file, for deploy/report.
func (r *results) add(e event) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = r.file.Write(append(text, '\n'))
	return err
}
