// Command with runs another command with a PostgreSQL of its own and, where it is
// asked for, with a cloud of its own, made for it and thrown away after it:
//
//	go run ./deploy/with go test ./schema/...
//	go run ./deploy/with --cloud --without manila,ceph go test ./activities/key/...
//	go run ./deploy/with --results .task/unit.json --retry deploy/with/retry.txt go test -json -timeout=40m ./...
//
// The command finds the database server's address in STRONGROOM_TEST_POSTGRES and
// the cloud's clouds.yaml in STRONGROOM_TEST_CLOUD. Where one of them is set
// already, what it names is used and nothing is started for it. STRONGROOM_TEST_MANILA_ROOT
// names a folder of deploy/cloud/manila-root, from which the cloud's Manila runs. With --results the
// command is `go test -json`: what it says is kept in the file and printed for people.
// A failed test that --retry's file lists is run again, alone and with new services. If it passes then, it is printed as FLAKY and kept
// so in the results; outcome.retries says which failures are final.
// --only is a pattern of the tests to run. Unlike -run, with which a person asks for a test, it leaves them a second try.
// Run by root, the command and its services have namespaces of processes and mounts of their own: which of them are left when the run ends, even by
// SIGKILL, are killed and unmounted. So the command sees no process of a service that is named by a variable.
// The exit code is the command's; in CI, a test that was skipped is a failure too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
)

func main() {
	run := map[string]func() (int, error){firstName: runFirst, insideName: inside}[os.Args[0]]
	switch {
	case run != nil:
	case os.Geteuid() == 0:
		run = enclose
	default: // only root may make namespaces
		run = inside
	}
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "with:", err)
		code = max(1, code)
	}
	os.Exit(code)
}

// inside does the work, with nothing around it that outlives it.
func inside() (int, error) {
	flags := flag.NewFlagSet("with", flag.ExitOnError)
	flags.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: with [--cloud [--without SERVICE,…]] [--results FILE [--retry FILE] [--only PATTERN]] COMMAND [ARGUMENT…]")
	}
	cloud, without := flags.Bool("cloud", false, ""), flags.String("without", "", "")
	into, retry, only := flags.String("results", "", ""), flags.String("retry", "", ""), flags.String("only", "", "")
	_ = flags.Parse(os.Args[1:]) // it exits
	s := suite{services: []service{database}, command: flags.Args(), only: *only, flaky: knownFlaky, to: os.Stdout}
	if *cloud {
		s.services = append(s.services, openstack(strings.Split(*without, ",")))
	}
	if len(s.command) == 0 || *retry != "" && *into == "" || *only != "" && *into == "" {
		flags.Usage()
		return 2, nil
	}
	if *retry != "" {
		var err error
		if s.retryable, err = readPatterns(*retry); err != nil {
			return 2, err
		}
	}
	err := s.run(context.Background(), *into)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(1, exit.ExitCode()), nil
	}
	return 0, err
}

// suite is a command with what it needs.
type suite struct {
	services  []service
	command   []string
	only      string   // of the tests of the command, those that match it; "": all
	retryable patterns // nil: no test is
	flaky     string   // a file like knownFlaky
	to        io.Writer
	signals   chan os.Signal
	stopped   bool // by a signal
}

// run runs the command. If its results are kept in a file, failed tests may have a second try.
func (s *suite) run(ctx context.Context, into string) error {
	s.signals = catch()
	defer signal.Stop(s.signals)
	if into == "" {
		return s.attempt(ctx, s.command, nil, nil)
	}
	r, err := newResults(into, s.to)
	if err != nil {
		return err
	}
	command := s.command
	if s.only != "" {
		command = append(slices.Clone(command), "-run="+s.only)
	}
	err = s.attempt(ctx, command, nil, r)
	if err != nil {
		err = s.retry(ctx, err, r)
	}
	return errors.Join(err, r.close())
}

// attempt runs a command once, with services of its own and additional variables. Its output goes to r unless that is nil.
func (s *suite) attempt(ctx context.Context, command, additional []string, r *results) error {
	variables, stop, err := start(ctx, s.services)
	defer func() {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, "with:", err)
		}
	}()
	if err != nil {
		return fmt.Errorf("starting services: %v", err) //nolint:errorlint // an exit code in it is not the command's
	}
	if s.interrupted() {
		return errors.New("stopped")
	}
	child := exec.Command(command[0], command[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.Env = slices.Concat(os.Environ(), variables, additional)
	wait := child.Wait
	if r != nil {
		if wait, err = r.follow(child); err != nil {
			return err
		}
	}
	if err := child.Start(); err != nil {
		return err
	}
	ended, passed := make(chan error, 1), map[os.Signal]bool{} // a signal that was sent to a group of processes comes here more than once
	go func() { ended <- wait() }()
	for {
		select {
		case err := <-ended:
			return err
		case sig := <-s.signals:
			s.stopped = true
			if sig != syscall.SIGINT && !passed[sig] { // a Ctrl-C at the terminal reached the command too
				passed[sig] = true
				_ = child.Process.Signal(sig) // it may have ended just now
			}
		}
	}
}

// interrupted reports whether a signal came. One that came between two commands has reached neither.
func (s *suite) interrupted() bool {
	select {
	case <-s.signals:
		s.stopped = true
	default:
	}
	return s.stopped
}

// start starts the services whose variables are not set, all at once, and gives
// the variables' settings. stop stops those that came up.
func start(ctx context.Context, services []service) (variables []string, stop func() error, err error) {
	settings, stops := make([]string, len(services)), make([]func() error, len(services))
	var starting errgroup.Group
	for i, s := range services {
		if os.Getenv(s.variable) != "" {
			continue
		}
		starting.Go(func() error {
			value, stop, err := s.start(ctx)
			if err != nil {
				// Somebody took a port that was free, say: another start has others.
				fmt.Fprintf(os.Stderr, "with: %s: %v; once more\n", s.variable, err)
				value, stop, err = s.start(ctx)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", s.variable, err)
			}
			settings[i], stops[i] = s.variable+"="+value, stop
			return nil
		})
	}
	err = starting.Wait()
	for _, setting := range settings {
		if setting != "" {
			variables = append(variables, setting)
		}
	}
	return variables, func() error {
		var stopping errgroup.Group
		for _, s := range stops {
			if s != nil {
				stopping.Go(s)
			}
		}
		return stopping.Wait()
	}, err
}
