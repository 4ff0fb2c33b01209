package api_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// costly is a regular expression that PostgreSQL takes long to read.
var costly = strings.Repeat(`(((a*)*b?)*){200}`, 3) + `c`

// M2: a client's regular expression gets little time, and all of them together leave
// connections for other requests.
func TestM2ExpressionsAreBounded(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.create(map[string]any{"name": strings.Repeat("a", 250)})
	watch, err := pgx.ConnectConfig(t.Context(), c.pool.Config().ConnConfig)
	require.NoError(t, err)
	defer watch.Close(t.Context())
	running := func() (n int) {
		require.NoError(t, watch.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND state = 'active' AND query LIKE '%s.name ~ $%' AND pid <> pg_backend_pid()`).Scan(&n))
		return n
	}
	const searches = 3
	answers := make(chan answer, searches)
	for range searches {
		go func() { answers <- c.do(t, member, "GET", "/servers?name="+url.QueryEscape(costly), "") }()
	}
	most := 0
	for got := 0; got < searches; {
		select {
		case a := <-answers:
			got++
			a.fails(400, "badRequest", "The search took too long. Use a simpler regular expression, or filter by more.")
		default:
			most = max(most, running())
			c.do(t, member, "GET", "/servers/detail", "").ok(200)
		}
	}
	require.Equal(t, 1, most, "a project has one at a time")
	require.Zero(t, running())
}

// M2: what cannot be read, or is longer than any name, is refused at once.
func TestM2ExpressionsThatAreNone(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	for value, text := range map[string]string{
		"(":                       "Invalid input for query parameters name. Value: (. '(' is not a 'regex'",
		"a{300}":                  "The request holds an invalid regular expression.",
		strings.Repeat("a", 301):  "The value of the filter name is too long: at most 300 characters.",
		strings.Repeat("é|", 151): "The value of the filter name is too long: at most 300 characters.",
	} {
		c.do(t, member, "GET", "/servers?name="+url.QueryEscape(value), "").fails(400, "badRequest", text)
	}
	c.do(t, member, "GET", "/servers?name="+url.QueryEscape(strings.Repeat("é", 300)), "").ok(200)
}
