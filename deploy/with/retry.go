package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// knownFlaky is the file of tests that passed only at the second try: one a line, with the commit and the error,
// "strongroom/integration.TestRescue 204db68fe08d the audit has no answer".
const knownFlaky = "integration/results/flaky.txt"

// retryVariable is set in a second try. integration/seed reads it, so that -run does not change the sample.
const retryVariable = "STRONGROOM_TEST_RETRY"

// retry runs each failed test once more: alone, in a new process with new services. A test that passes then is FLAKY: this is printed and
// kept in the results, and does not fail the command. retry returns nil if all of them pass, and otherwise the command's error.
func (s *suite) retry(ctx context.Context, failure error, r *results) error {
	var exit *exec.ExitError
	// go test ends with 1 when tests fail. A run that was killed, or whose output was not read to its end, is not known.
	if s.retryable == nil || !errors.As(failure, &exit) || exit.ExitCode() != 1 || r.incomplete || s.interrupted() || hasRunFlag(s.command) {
		return failure
	}
	flaky, err := readFlaky(s.flaky)
	if err != nil {
		return errors.Join(failure, err)
	}
	tests, reason := r.retries(s.retryable, flaky)
	if reason != "" {
		fmt.Fprintf(r.to, "with: no second try: %s\n", reason)
	}
	if len(tests) == 0 {
		return failure
	}
	errorOf := r.firstError
	for _, t := range tests {
		command, err := retryCommand(s.command, t)
		if err != nil {
			return errors.Join(failure, err)
		}
		fmt.Fprintf(r.to, "with: second try: %s of %s\n", t.name, t.pkg)
		r.outcome = newOutcome()
		if err := r.add(event{Action: "retry", Package: t.pkg, Test: t.name, Output: errorOf[t]}); err != nil {
			return errors.Join(failure, err)
		}
		err = s.attempt(ctx, command, []string{retryVariable + "=1"}, r)
		switch {
		case s.interrupted():
			return failure
		case err == nil && (!r.passed[t] || r.incomplete):
			err = errors.New("the test was not run a second time")
		}
		if err != nil {
			fmt.Fprintf(r.to, "with: second try of %s failed, too\n", t.name)
			return err
		}
		fmt.Fprintf(r.to, "FLAKY %s.%s %s %s\n", t.pkg, t.name, commit(), r.name+": "+errorOf[t])
	}
	return nil
}

// runFlag is an argument with which a command names its tests: whoever asks for one wants to see it fail.
var runFlag = regexp.MustCompile(`^--?(test\.)?run(=|$)`)

func hasRunFlag(command []string) bool { return slices.ContainsFunc(command, runFlag.MatchString) }

// retryCommand returns the command that runs one test alone. command is a go test with flags of the form -name=value, and packages.
func retryCommand(command []string, t test) ([]string, error) {
	alone := slices.Clone(command[:2])
	for _, argument := range command[2:] {
		switch {
		case strings.HasPrefix(argument, "-"):
			alone = append(alone, argument)
		case !strings.HasPrefix(argument, "./") && !strings.HasPrefix(argument, module):
			return nil, fmt.Errorf("no second try: %q is neither -flag=value nor a package", argument)
		}
	}
	return append(alone, "-count=1", "-run=^"+regexp.QuoteMeta(t.name)+"$", t.pkg), nil
}

// module begins the names of packages.
const module = "strongroom"

// patterns are packages (all their tests) and PACKAGE.TESTs.
type patterns map[string]bool

// readPatterns reads a file with one pattern a line, without the module's name.
func readPatterns(path string) (patterns, error) {
	text, err := os.ReadFile(path)
	p := patterns{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			p[module+"/"+line] = true
		}
	}
	return p, err
}

func (p patterns) match(t test) bool { return p[t.pkg] || p[t.pkg+"."+t.name] }

// readFlaky reads a file like knownFlaky, and returns the tests that are in it at two commits or more.
func readFlaky(path string) (map[test]bool, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	firstCommit, flaky := map[test]string{}, map[test]bool{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndex(fields[0], ".")
		if at < 0 {
			return nil, fmt.Errorf("%s: %q does not begin with PACKAGE.TEST", path, line)
		}
		t := test{fields[0][:at], fields[0][at+1:]}
		if commit, known := firstCommit[t]; known && commit != fields[1] {
			flaky[t] = true
		} else {
			firstCommit[t] = fields[1]
		}
	}
	return flaky, nil
}

// commit is the one that is tested, "-" outside a repository.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "-"
	}
	return strings.TrimSpace(string(out))
}
