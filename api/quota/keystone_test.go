package quota_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
	limit int
}

func (k *keystone) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	if k.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/registered_limits"):
		fmt.Fprint(w, `{"registered_limits": [{"resource_name": "servers", "service_id": "s", "region_id": null, "default_limit": 4}]}`)
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

// H7: limits are asked for seldom, and go on while Keystone is away: those of before for
// an hour, then the configured ones.
func TestH7KeystoneIsAway(t *testing.T) {
	t.Parallel()
	service := &keystone{limit: 7}
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	now := time.Now()
	var clock sync.Mutex
	advance := func(d time.Duration) {
		clock.Lock()
		defer clock.Unlock()
		now = now.Add(d)
	}
	configured := compute.Quota{Instances: 1, Cores: 2, MemoryMB: 3, DiskGB: 4}
	k := quota.NewKeystone(quota.Config{
		Identity: &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{TokenID: "t"}, Endpoint: server.URL + "/v3/"},
		Service:  "s", Region: "R", Default: configured, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time {
			clock.Lock()
			defer clock.Unlock()
			return now
		},
	})
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
