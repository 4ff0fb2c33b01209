package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
)

// K2: HEAD is answered as GET on every path of every service, without a body.
func TestK2HeadIsGetWithoutABody(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	front := httptest.NewServer(c.api)
	t.Cleanup(front.Close)
	ask := func(method, path string) (code int, header http.Header, body string) {
		r, err := http.NewRequestWithContext(t.Context(), method, front.URL+path, nil)
		require.NoError(t, err)
		r.Header.Set("X-Auth-Token", string(member))
		got, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		return got.StatusCode, got.Header, string(text)
	}
	for path, code := range map[string]int{
		"/": 200, "/v2.1": 200, "/v2.1/": 200, "/v2/": 200, "/v2.1/servers": 200, "/v2.1/servers/" + c.active(): 200, "/v2.1/servers/x": 404,
		"/v2.1/flavors/detail": 200, "/volume/v3/": 200, "/volume/v3/types": 200, "/healthcheck": 200, "/v2.1/servers/x/action": 405, "/nothing": 300,
	} {
		got, get, body := ask(http.MethodGet, path)
		require.Equal(t, code, got, path)
		require.NotEmpty(t, body, path)
		got, head, body := ask(http.MethodHead, path)
		require.Equal(t, code, got, path)
		require.Empty(t, body, path)
		for _, name := range []string{"Content-Type", "OpenStack-API-Version", "Vary"} {
			require.Equal(t, get.Get(name), head.Get(name), path)
		}
	}
}

// K2: a client that names no host gets links to the address that it asked.
func TestK2LinksWithoutAHost(t *testing.T) {
	t.Parallel()
	front := httptest.NewServer(setupCloud(t).api)
	t.Cleanup(front.Close)
	at := front.Listener.Addr().String()
	conn, err := net.Dial("tcp", at)
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "GET / HTTP/1.0\r\n\r\n")
	require.NoError(t, err)
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), `"href":"http://`+at+`/v2.1/"`)
}

// K2: a balancer learns without a token whether the process can serve; each service is asked once a second at most.
func TestK2Healthcheck(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	ask := func() (int, string) {
		w := httptest.NewRecorder()
		c.api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthcheck", nil))
		return w.Code, w.Body.String()
	}
	code, body := ask()
	require.Equal(t, 200, code)
	require.JSONEq(t, `{"database": "ok", "temporal": "ok"}`, body)
	c.starter.unwell(compute.Errorf(compute.Unavailable, "dial tcp 192.0.2.7:7233: refused"))
	began, looks := time.Now(), c.starter.looks
	for range 10 {
		ask()
	}
	require.LessOrEqual(t, c.starter.looks-looks, 1+int(time.Since(began)/time.Second))
	time.Sleep(1100 * time.Millisecond)
	code, body = ask()
	require.Equal(t, 503, code)
	require.JSONEq(t, `{"database": "ok", "temporal": "does not answer"}`, body)
	c.starter.unwell(nil)
	time.Sleep(1100 * time.Millisecond)
	code, _ = ask()
	require.Equal(t, 200, code)

	// A pool whose connections are all in use is no failure of the database.
	var held []*pgxpool.Conn
	for range c.pool.Config().MaxConns {
		conn, err := c.pool.Acquire(t.Context())
		require.NoError(t, err)
		held = append(held, conn)
	}
	time.Sleep(1100 * time.Millisecond)
	code, body = ask()
	require.Equal(t, 200, code, body)
	for _, conn := range held {
		conn.Release()
	}
}

func TestK2HealthcheckWithoutADatabase(t *testing.T) {
	t.Parallel()
	away, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	require.NoError(t, err)
	t.Cleanup(away.Close)
	b := setup(t, func(config *api.Config) { config.Pool, config.Operations = away, &starter{} })
	w := httptest.NewRecorder()
	b.api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthcheck", nil))
	require.Equal(t, 503, w.Code)
	require.JSONEq(t, `{"database": "does not answer", "temporal": "ok"}`, w.Body.String())
	require.Contains(t, b.log.String(), `"error":"database: `)
}
