// Command with runs another command with a PostgreSQL of its own and, where it is
// asked for, with a cloud of its own, made for it and thrown away after it:
//
//	go run ./deploy/with go test ./schema/...
//	go run ./deploy/with --cloud go test ./activities/key/...
//	go run ./deploy/with --results .task/unit.json go test -json ./...
//
// The command finds the database server's address in STRONGROOM_TEST_POSTGRES and
// the cloud's clouds.yaml in STRONGROOM_TEST_CLOUD. Where one of them is set
// already, what it names is used and nothing is started for it. STRONGROOM_TEST_MANILA_ROOT
// names a folder of deploy/cloud/manila-root, from which the cloud's Manila runs. With --results the
// command is `go test -json`: what it says is kept in the file and printed for people.
// The exit code is the command's; in CI, a test that was skipped is a failure too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"
)

func main() {
	flags := flag.NewFlagSet("with", flag.ExitOnError)
	flags.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: with [--cloud] [--results FILE] COMMAND [ARGUMENT…]")
	}
	cloud, into := flags.Bool("cloud", false, ""), flags.String("results", "", "")
	_ = flags.Parse(os.Args[1:]) // it exits
	services, command := []service{database}, flags.Args()
	if *cloud {
		services = append(services, openstack)
	}
	if len(command) == 0 {
		flags.Usage()
		os.Exit(2)
	}
	err := run(context.Background(), services, command, *into)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(max(1, exit.ExitCode()))
	case err != nil:
		fmt.Fprintln(os.Stderr, "with:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, services []service, command []string, into string) error {
	// This process stays to tidy up after the command. It must not ignore the
	// signals: the command would inherit that.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	variables, stop, err := start(ctx, services)
	defer func() {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, "with:", err)
		}
	}()
	if err != nil {
		return fmt.Errorf("starting services: %v", err) //nolint:errorlint // an exit code in it is not the command's
	}
	child := exec.Command(command[0], command[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.Env = append(os.Environ(), variables...)
	wait := child.Wait
	if into != "" {
		if wait, err = keepResults(child, into); err != nil {
			return err
		}
	}
	if err := child.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- wait() }()
	for {
		select {
		case err := <-ended:
			return err
		case sig := <-signals:
			if sig != syscall.SIGINT { // a Ctrl-C at the terminal reached the command too
				_ = child.Process.Signal(sig) // it may have ended just now
			}
		}
	}
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
