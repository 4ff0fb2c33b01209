// Command with runs another command with a PostgreSQL of its own, made for it and
// thrown away after it:
//
//	go run ./deploy/dev/with go test ./schema/...
//
// The command finds the server's address in STRONGROOM_TEST_POSTGRES. Where that
// is set already, its server is used and none is started. The exit code is the
// command's.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"strongroom/deploy/dev/postgres"
)

// variable is what the tests read.
const variable = "STRONGROOM_TEST_POSTGRES"

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: with COMMAND [ARGUMENT…]")
		os.Exit(2)
	}
	err := run(context.Background(), os.Args[1:])
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(max(1, exit.ExitCode()))
	case err != nil:
		fmt.Fprintln(os.Stderr, "with:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, command []string) (err error) {
	if os.Getenv(variable) == "" {
		server, remove, err := database(ctx)
		if err != nil {
			return err
		}
		defer remove()
		if err := os.Setenv(variable, server); err != nil {
			return err
		}
	}
	child := exec.CommandContext(ctx, command[0], command[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	// This process stays to tidy up after the command. It must not ignore the
	// signals: the command would inherit that.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := child.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
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

// database starts a server in a folder of its own. The path is short: the socket
// is below it.
func database(ctx context.Context) (url string, remove func(), err error) {
	dir, err := os.MkdirTemp("/tmp", "sr-pg-")
	if err != nil {
		return "", nil, err
	}
	tidy := func() {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, "with:", err)
		}
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		tidy()
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	server, err := postgres.Start(ctx, postgres.Config{Dir: dir, Volatile: true, MaxConnections: 500})
	if err != nil {
		tidy()
		return "", nil, err
	}
	return server.URL(), func() {
		if err := server.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "with:", err)
		}
		tidy()
	}, nil
}
