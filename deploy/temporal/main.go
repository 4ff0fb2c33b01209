// strongroom-temporal is Temporal's server, with its UI, for strongroom: it knows who asks
// by the certificates of strongroom's authority, and lets compute hosts do their own tasks
// and nothing else.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

type commands struct {
	Config string `required:"" type:"existingfile" help:"The configuration file."`

	Serve   serveCommand   `cmd:"" help:"Run the server."`
	Migrate migrateCommand `cmd:"" help:"Bring PostgreSQL up to this release's schema; it makes the databases that are missing."`
}

type run struct {
	context.Context
	cfg *Config
	log *slog.Logger
}

func main() {
	if err := keepOutOfDumps(); err != nil {
		fmt.Fprintln(os.Stderr, "strongroom-temporal:", err)
		os.Exit(1)
	}
	var c commands
	cli := kong.Parse(&c, kong.Name("strongroom-temporal"), kong.Description("Temporal's server for strongroom."), kong.UsageOnError())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cfg, err := loadConfig(c.Config)
	if err == nil {
		err = cli.Run(&run{ctx, cfg, slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "strongroom-temporal:", err)
		os.Exit(1)
	}
}
