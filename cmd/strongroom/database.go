package main

import (
	"fmt"
	"os"

	"strongroom/schema"
)

type databaseCommand struct {
	Grant databaseGrant `cmd:"" help:"Let a role of PostgreSQL do what the metadata service or the console proxy does, and nothing else."`
}

type databaseGrant struct {
	Role string `arg:"" help:"A role of PostgreSQL, which exists."`
	For  string `enum:"metadata,console-proxy" default:"metadata" help:"Whose rights it gets: metadata or console-proxy."`
}

// Help is shown by --help.
func (databaseGrant) Help() string {
	return `For strongroom metadata, which needs to read a few columns and nothing else:

    CREATE ROLE strongroom_metadata LOGIN PASSWORD '…'    (in psql)
    strongroom database grant strongroom_metadata

and then database.url of its own configuration names that role. For strongroom console-proxy,
which takes the tokens of consoles besides:

    CREATE ROLE strongroom_console LOGIN PASSWORD '…'
    strongroom database grant --for console-proxy strongroom_console

Run it as the owner of the tables, where strongroom migrate runs, and again after each
upgrade: a release may read columns that the one before did not have. Other rights to
strongroom's tables that the role was given itself are taken from it.`
}

func (c databaseGrant) Run(r *run) error {
	_, pool, err := r.database()
	if err != nil {
		return err
	}
	defer pool.Close()
	grant, does := schema.GrantMetadata, "reads what the metadata service reads"
	if c.For == "console-proxy" {
		grant, does = schema.GrantConsoleProxy, "does what the console proxy does"
	}
	if err := grant(r, pool, c.Role); err != nil {
		return err
	}
	_, err = fmt.Fprintf(os.Stdout, "role %s %s, and nothing else\n", c.Role, does)
	return err
}
