// Command strongroom-initializer is what the initializer's container image has as strongroom: that
// one command of it, and nothing else, in a program that needs no library.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"strongroom/activities/secret"
	"strongroom/securepv/initializer/command"
)

func main() {
	if err := secret.KeepOutOfDumps(); err != nil {
		fmt.Fprintln(os.Stderr, "strongroom: "+err.Error())
		os.Exit(1)
	}
	var c struct {
		Initializer command.Initializer `cmd:"" help:"Fetch a workload's secret and open its encrypted volumes: the program of the container that generate puts into pods."`
	}
	k := kong.Parse(&c, kong.Name("strongroom"), kong.UsageOnError(), command.Vars, kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k.BindTo(ctx, (*context.Context)(nil))
	if err := k.Run(slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
		fmt.Fprintln(os.Stderr, "strongroom: "+err.Error())
		stop()
		code := 1
		var asks kong.ExitCoder
		if errors.As(err, &asks) {
			code = asks.ExitCode()
		}
		os.Exit(code) //nolint:gocritic // stop was called
	}
}
