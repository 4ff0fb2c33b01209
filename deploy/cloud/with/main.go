// Command with runs another command with a cloud of its own, made for it and
// thrown away after it:
//
//	go run ./deploy/cloud/with go test ./activities/key/barbican
//
// The command finds the cloud's clouds.yaml in STRONGROOM_TEST_CLOUD. Where that is
// set already, its cloud is used and none is started. The exit code is the
// command's.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"strongroom/deploy/cloud"
)

// variable is what the tests read.
const variable = "STRONGROOM_TEST_CLOUD"

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
	// This process stays to tidy up after the command. It must not ignore the
	// signals: the command would inherit that.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if os.Getenv(variable) == "" {
		file, remove, err := start(ctx)
		if err != nil {
			return err
		}
		defer remove()
		if err := os.Setenv(variable, file); err != nil {
			return err
		}
	}
	child := exec.CommandContext(ctx, command[0], command[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
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

// start starts a cloud in a folder of its own, with a short path.
func start(ctx context.Context) (file string, remove func(), err error) {
	dir, err := os.MkdirTemp("/tmp", "sr-cloud-")
	if err != nil {
		return "", nil, err
	}
	tidy := func() {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, "with:", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	c, err := cloud.Start(ctx, cloud.Config{
		Dir:    dir,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		tidy()
		return "", nil, err
	}
	return c.CloudsFile(), func() {
		if err := c.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "with:", err)
		}
		tidy()
	}, nil
}
