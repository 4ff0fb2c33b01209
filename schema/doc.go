// Package schema holds strongroom's PostgreSQL schema: the migrations (goose,
// embedded), the queries in queries/*.sql, and the code that sqlc makes of them.
package schema

//go:generate sqlc generate
