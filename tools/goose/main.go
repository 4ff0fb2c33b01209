// Command goose is the migration tool of github.com/pressly/goose with the one
// driver that this project needs. The upstream command links a driver for every
// database there is.
//
//	goose [-dir schema/migrations] status|up|up-by-one|down|redo|version
//	goose [-dir schema/migrations] create NAME sql
//
// The database is the one that the environment variable GOOSE_DBSTRING names.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"os/signal"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

func main() {
	dir := flag.String("dir", "schema/migrations", "folder of the migrations")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: GOOSE_DBSTRING=postgres://… goose [-dir DIR] status|up|up-by-one|down|redo|version|create NAME sql")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, flag.Arg(0), flag.Args()[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "goose:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir, command string, args []string) error {
	goose.SetSequential(true) // create: 00002_name.sql, as the ones that stand
	if err := goose.SetDialect("postgres"); err != nil {
		return err
	}
	db, err := sql.Open("pgx", os.Getenv("GOOSE_DBSTRING"))
	if err != nil {
		return err
	}
	defer db.Close()
	return goose.RunContext(ctx, command, db, dir, args...)
}
