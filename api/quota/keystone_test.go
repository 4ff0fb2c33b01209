package quota_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"

	"strongroom/api/quota"
	"strongroom/compute"
)

// keystone is an identity service that can be made to fail, which a real one cannot be.
type keystone struct {
	mu    sync.Mutex
	down  bool
	asked int
	paths map[string]int // how often each was asked for
	limit int
}

func (k *keystone) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	if k.paths == nil {
		k.paths = map[string]int{}
	}
	k.paths[path.Base(r.URL.Path)]++
	if k.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/registered_limits"):
		fmt.Fprint(w, `{"registered_limits": [{"resource_name": "servers", "service_id": "s", "region_id": null, "default_limit": 4}]}`)
	case strings.HasSuffix(r.URL.Path, "/services"):
		fmt.Fprint(w, `{"services": [{"id": "s", "type": "compute"}]}`)
	default:
		fmt.Fprintf(w, `{"limits": [{"resource_name": "servers", "service_id": "s", "region_id": null, "project_id": "p", "resource_limit": %d}]}`, k.limit)
	}
}

func (k *keystone) set(down bool, limit int) (asked int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.down, k.limit = down, limit
	return k.asked
}

// clocked makes a Keystone before a service, with a clock that the test moves.
func clocked(t *testing.T, service http.Handler, config quota.Config) (k *quota.Keystone, advance func(time.Duration)) {
	t.Helper()
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	now := time.Now()
	var clock sync.Mutex
	config.Identity = &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{TokenID: "t"}, Endpoint: server.URL + "/v3/"}
	config.Logger = slog.New(slog.DiscardHandler)
	config.Now = func() time.Time {
		clock.Lock()
		defer clock.Unlock()
		return now
	}
	return quota.NewKeystone(config), func(d time.Duration) {
		clock.Lock()
		defer clock.Unlock()
		now = now.Add(d)
	}
}

// H7: what is the same for all projects is asked for once a minute, whoever asks; a project's
// limits are asked for once for it.
func TestH7WhatAllProjectsShareIsAskedForOnce(t *testing.T) {
	t.Parallel()
	service := &keystone{limit: 7}
	k, advance := clocked(t, service, quota.Config{Region: "R"})
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			if got := k.Of(context.Background(), fmt.Sprint("project ", i)).Instances; got != 4 {
				t.Errorf("%d", got)
			}
		})
	}
	all.Wait()
	require.Equal(t, map[string]int{"services": 1, "registered_limits": 1, "limits": 200}, service.paths)
	require.EqualValues(t, 4, k.Default(t.Context()).Instances)
	advance(31 * time.Second)
	require.EqualValues(t, 4, k.Of(t.Context(), "project 1").Instances)
	require.Equal(t, map[string]int{"services": 1, "registered_limits": 1, "limits": 201}, service.paths)
	advance(31 * time.Second)
	require.EqualValues(t, 7, k.Of(t.Context(), "p").Instances)
	require.Equal(t, map[string]int{"services": 2, "registered_limits": 2, "limits": 202}, service.paths)
	for i := range 5000 { // more than are kept
		k.Of(t.Context(), fmt.Sprint("another ", i))
	}
	require.Equal(t, 5202, service.paths["limits"])
	k.Of(t.Context(), "another 4999")
	require.Equal(t, 5202, service.paths["limits"], "kept")
	k.Of(t.Context(), "p")
	require.Equal(t, 5203, service.paths["limits"], "it gave way")
}

// H7: limits are asked for seldom, and go on while Keystone is away: those of before for
// an hour, then the configured ones.
func TestH7KeystoneIsAway(t *testing.T) {
	t.Parallel()
	service := &keystone{limit: 7}
	configured := compute.Quota{Instances: 1, Cores: 2, MemoryMB: 3, DiskGB: 4}
	k, advance := clocked(t, service, quota.Config{Service: "s", Region: "R", Default: configured})
	servers := func(project string) int64 { return k.Of(context.Background(), project).Instances }
	require.EqualValues(t, 7, servers("p"))
	require.EqualValues(t, 4, servers("q"), "limits of others are not its own")
	require.EqualValues(t, 4, k.Default(t.Context()).Instances)
	asked := service.set(false, 9)
	require.EqualValues(t, 7, servers("p"), "said a moment ago")
	require.Equal(t, asked, service.set(false, 9))
	advance(31 * time.Second)
	require.EqualValues(t, 9, servers("p"))

	service.set(true, 9)
	advance(31 * time.Second)
	require.EqualValues(t, 9, servers("p"), "that of before")
	asked = service.set(true, 9)
	require.EqualValues(t, 9, servers("p"))
	require.Equal(t, asked, service.set(true, 9), "not asked again at once")
	require.EqualValues(t, 1, servers("new"), "nothing is known of it")
	advance(59 * time.Minute)
	require.EqualValues(t, 9, servers("p"))
	advance(2 * time.Minute)
	require.Equal(t, configured, k.Of(t.Context(), "p"))
	service.set(false, 5)
	advance(11 * time.Second)
	require.EqualValues(t, 5, servers("p"))
	require.Equal(t, compute.Quota{Instances: 5, Cores: 2, MemoryMB: 3, DiskGB: 4}, k.Of(t.Context(), "p"))
}
