package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/iancoleman/strcase"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

const clusterName = "active" // as Temporal's own default

// The stores of Temporal: what runs, and what can be searched.
const (
	mainStore       = "main"
	visibilityStore = "visibility"
)

// persistence says where Temporal keeps what it knows; SQLite's file is made if there is none.
func (c *Config) persistence() (config.Persistence, error) {
	out := config.Persistence{DefaultStore: mainStore, VisibilityStore: visibilityStore, NumHistoryShards: c.Database.HistoryShards}
	var main, visibility *config.SQL
	var err error
	if c.Database.URLFile == "" {
		out.NumHistoryShards = 1 // one process has the file
		main, err = c.sqlite()
		visibility = main
	} else {
		main, visibility, err = c.postgres()
	}
	out.DataStores = map[string]config.DataStore{mainStore: {SQL: main}, visibilityStore: {SQL: visibility}}
	return out, err
}

func (c *Config) sqlite() (*config.SQL, error) {
	out := &config.SQL{PluginName: sqliteplugin.PluginName, DatabaseName: c.sqliteFile(), ConnectAttributes: map[string]string{"mode": "rwc"}}
	_, err := os.Stat(c.sqliteFile())
	if !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	// A start that is killed in the middle leaves no half of a schema behind.
	draft := *out
	draft.DatabaseName += ".new"
	if err := os.RemoveAll(draft.DatabaseName); err != nil {
		return nil, err
	}
	if err := sqlite.SetupSchema(&draft); err != nil {
		return nil, fmt.Errorf("making %s: %w", c.sqliteFile(), err)
	}
	return out, os.Rename(draft.DatabaseName, c.sqliteFile())
}

// postgres reads the URL, and gives the two databases: the second one has the first one's
// name and _visibility, or database.visibility.
func (c *Config) postgres() (main, visibility *config.SQL, err error) {
	at, err := c.postgresURL()
	if err != nil {
		return nil, nil, err
	}
	second := c.Database.Visibility
	if second == "" {
		second = at.Database + "_visibility"
	}
	if second == at.Database {
		return nil, nil, errors.New("database.visibility: another database than that of the URL")
	}
	return c.postgresAt(at, at.Database), c.postgresAt(at, second), nil
}

func (c *Config) postgresURL() (*pgx.ConnConfig, error) {
	info, err := os.Stat(c.Database.URLFile)
	if err != nil {
		return nil, fmt.Errorf("database.url_file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("database.url_file: %s can be read by others: chmod 600 it", c.Database.URLFile)
	}
	text, err := os.ReadFile(c.Database.URLFile)
	if err != nil {
		return nil, fmt.Errorf("database.url_file: %w", err)
	}
	at, err := pgx.ParseConfig(strings.TrimSpace(string(text)))
	if err != nil || at.Database == "" { // the error may show the password
		return nil, fmt.Errorf("database.url_file: %s is not postgres://user:password@host/database", c.Database.URLFile)
	}
	return at, nil
}

func (c *Config) postgresAt(at *pgx.ConnConfig, database string) *config.SQL {
	out := &config.SQL{PluginName: postgresql.PluginNamePGX, DatabaseName: database, ConnectAddr: at.Host, ConnectProtocol: "tcp"}
	out.Connect = func(cfg *config.SQL) (*sqlx.DB, error) {
		own := at.Copy()
		own.Database = cfg.DatabaseName
		db := sqlx.NewDb(stdlib.OpenDB(*own), "pgx")
		db.SetMaxOpenConns(c.Database.Connections)
		db.SetMaxIdleConns(c.Database.Connections)
		db.MapperFunc(strcase.ToSnake) // as Temporal's own connections have it
		if err := db.Ping(); err != nil {
			return nil, errors.Join(fmt.Errorf("the database %s does not answer: %w", cfg.DatabaseName, err), db.Close())
		}
		return db, nil
	}
	return out
}

// makeNamespaces makes those that there are none of.
func (c *Config) makeNamespaces(in *config.SQL) error {
	var all []*sqlite.NamespaceConfig
	for _, n := range c.Namespaces {
		attributes := map[string]enumspb.IndexedValueType{}
		for name, kind := range n.SearchAttributes {
			value, err := enumspb.IndexedValueTypeFromString(kind)
			if err != nil {
				return fmt.Errorf("namespaces: %s: search_attributes: %s: %w", n.Name, name, err)
			}
			attributes[name] = value
		}
		made, err := sqlite.NewNamespaceConfig(clusterName, n.Name, false, attributes)
		if err != nil {
			return fmt.Errorf("namespaces: %s: %w", n.Name, err)
		}
		made.Detail.Config.Retention = durationpb.New(n.Retention)
		all = append(all, made)
	}
	return sqlite.CreateNamespaces(in, all...) // of any database, despite its name
}
