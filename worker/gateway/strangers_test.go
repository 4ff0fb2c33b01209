package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

// anybody shows no certificate, and takes any.
func anybody() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
}

// S9: strangers, however many, use two connections of the database; hosts have the others.
func TestS9StrangersLeaveHostsTheDatabase(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("a")
	in := h.request
	in.Token = c.token("b")
	body, err := json.Marshal(in)
	require.NoError(t, err)
	holder, err := pgx.ConnectConfig(t.Context(), c.DB.Config().ConnConfig)
	require.NoError(t, err)
	defer func() { _ = holder.Close(context.Background()) }()
	_, err = holder.Exec(t.Context(), "BEGIN; LOCK TABLE host_enrollments IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	waiting := func() (n int) {
		const locked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
		require.NoError(t, holder.QueryRow(t.Context(), locked).Scan(&n))
		return n
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stranger, most := anybody(), int(c.DB.Config().MaxConns)
	for range 2 * most {
		go func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/enroll", bytes.NewReader(body))
			if err != nil {
				return
			}
			if answer, err := stranger.Do(request); err == nil {
				_ = answer.Body.Close()
			}
		}()
	}
	require.Eventually(t, func() bool { return waiting() > 0 }, time.Minute, 10*time.Millisecond)
	for range 50 { // without turns all connections wait by now, and the report, too
		require.NoError(t, h.client.Report(c.Ctx, gateway.HostReport{VCPUs: 8, MemoryMB: 8192, DiskGB: 100, VCPURatio: 1, MemoryRatio: 1, DiskRatio: 1, CPUInfo: []byte("{}")}))
		require.LessOrEqual(t, waiting(), 2)
	}
}

// S9: the list of revoked certificates is signed once for all who ask within some seconds.
func TestS9TheListIsSignedNowAndThen(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.fresh = time.Hour
	own, err := c.authority.Process(pki.Gateway)
	require.NoError(t, err)
	c.url = c.serve(own)
	list := func() string {
		answer, err := anybody().Get(c.url + "/v1/revoked")
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.StatusCode)
		return string(text)
	}
	first := list()
	for range 5 {
		require.Equal(t, first, list())
	}
}
