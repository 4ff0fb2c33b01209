package auth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"

	"strongroom/api/auth"
)

// keystone answers what the test lets it, and counts.
type keystone struct {
	mu         sync.Mutex
	asked      map[string]int // by token
	busy, most int
	hold       chan struct{} // each answer waits for its end
	once       sync.Once
}

func (k *keystone) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := r.Header.Get("X-Subject-Token")
	k.mu.Lock()
	k.asked[token]++
	k.busy++
	k.most = max(k.most, k.busy)
	k.mu.Unlock()
	<-k.hold
	k.mu.Lock()
	k.busy--
	k.mu.Unlock()
	if !strings.HasPrefix(token, "good") {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("X-Subject-Token", token)
	_ = json.NewEncoder(w).Encode(map[string]any{"token": map[string]any{
		"expires_at": time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z"),
		"user":       map[string]any{"id": "u", "name": "u", "domain": map[string]any{"id": "default", "name": "Default"}},
		"project":    map[string]any{"id": "p", "name": "p", "domain": map[string]any{"id": "default", "name": "Default"}},
	}})
}

func (k *keystone) release() { k.once.Do(func() { close(k.hold) }) }

func (k *keystone) state() (asked, busy, most int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, n := range k.asked {
		asked += n
	}
	return asked, k.busy, k.most
}

// flood is a Validator before a Keystone that answers when it is released.
func flood(t *testing.T) (k *keystone, v *auth.Validator, pass func(d time.Duration)) {
	t.Helper()
	k = &keystone{asked: map[string]int{}, hold: make(chan struct{})}
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	t.Cleanup(func() { k.release() })
	var mu sync.Mutex
	now := time.Now()
	v = auth.New(auth.Config{
		Identity: &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{TokenID: "own"}, Endpoint: server.URL + "/v3/"},
		Client:   func(r *http.Request) string { return r.RemoteAddr },
		Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return now
		},
	})
	return k, v, func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
}

func with(token, client string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set(auth.Header, token)
	r.RemoteAddr = client
	return r
}

func code(err error) int {
	if refusal, ok := err.(*auth.Refusal); ok { //nolint:errorlint // Token says that it is one
		return refusal.Code
	}
	return 0
}

func TestM10ABadTokenIsAskedForOnce(t *testing.T) {
	t.Parallel()
	k, v, pass := flood(t)
	k.release()
	for range 20 {
		_, err := v.Token(with("bad", "a"))
		require.Equal(t, 401, code(err))
	}
	require.Equal(t, 1, k.asked["bad"])
	pass(auth.RefusedTTL)
	_, err := v.Token(with("bad", "a"))
	require.Equal(t, 401, code(err))
	require.Equal(t, 2, k.asked["bad"], "it may be known by now")
}

func TestM10AFailureIsNoRefusal(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	v := auth.New(auth.Config{
		Identity: &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{TokenID: "own"}, Endpoint: server.URL + "/v3/"},
		Client:   func(*http.Request) string { return "a" }, Now: time.Now,
	})
	for range 2 {
		_, err := v.Token(with("good", "a"))
		require.Equal(t, 503, code(err))
	}
	server.Close()
	_, err := v.Token(with("good", "a"))
	require.Equal(t, 503, code(err))
}

func TestM10OneTokenIsAskedForOnceAtATime(t *testing.T) {
	t.Parallel()
	k, v, _ := flood(t)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			token, err := v.Token(with("good", fmt.Sprint("client ", i)))
			require.NoError(t, err)
			require.Equal(t, "p", token.ProjectScopeUUID())
		})
	}
	require.Eventually(t, func() bool { asked, _, _ := k.state(); return asked == 1 }, time.Minute, time.Millisecond)
	k.release()
	all.Wait()
	require.Equal(t, 1, k.asked["good"])
}

// TestM10AFloodLeavesRoomForOthers: one client's bad tokens occupy a part of the identity
// service, and those of many clients not all of it either.
func TestM10AFloodLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	k, v, _ := flood(t)
	var all sync.WaitGroup
	send := func(token, client string, want int) {
		all.Go(func() {
			_, err := v.Token(with(token, client))
			require.Equal(t, want, code(err))
		})
	}
	busy := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { _, busy, _ := k.state(); return busy == n }, time.Minute, time.Millisecond)
	}
	for i := range 50 {
		send(fmt.Sprint("bad ", i), "flooder", 401)
	}
	busy(8)
	send("good", "another", 0)
	busy(9)
	for i := range 300 {
		send(fmt.Sprint("bad of many ", i), fmt.Sprint("client ", i), 401)
	}
	busy(32)
	k.release()
	all.Wait()
	_, _, most := k.state()
	require.Equal(t, 32, most)
}

// TestM10WhoHangsUpKeepsItsPlace: a client that goes before the answer has the identity
// service no more often at once than one that waits.
func TestM10WhoHangsUpKeepsItsPlace(t *testing.T) {
	t.Parallel()
	k, v, _ := flood(t)
	for i := range 40 {
		ctx, hangUp := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := v.Token(with(fmt.Sprint("bad ", i), "flooder").WithContext(ctx))
		hangUp()
		require.Equal(t, 503, code(err))
	}
	asked, _, most := k.state()
	require.LessOrEqual(t, asked, 8)
	k.release()
	require.Eventually(t, func() bool { _, busy, _ := k.state(); return busy == 0 }, time.Minute, time.Millisecond)
	_, err := v.Token(with("good", "flooder"))
	require.NoError(t, err, "its places are free again")
	require.LessOrEqual(t, most, 8)
}

// TestM10OneClientsAddressesAreOneClient: who has a network of IPv6 addresses is one client
// with all of them, and an IPv4 address is one however it is written.
func TestM10OneClientsAddressesAreOneClient(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(i int) string{
		"addresses of a /64":             func(i int) string { return fmt.Sprintf("2001:db8:0:1:%x::%x", i, 7*i) },
		"with ports":                     func(i int) string { return fmt.Sprintf("[2001:db8:0:1::%x]:%d", i, 40000+i) },
		"links of a link-local address":  func(i int) string { return fmt.Sprintf("fe80::1%%eth%d", i) },
		"an IPv4 address in both shapes": func(i int) string { return []string{"192.0.2.1", "::ffff:192.0.2.1"}[i%2] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, v, _ := flood(t)
			var all sync.WaitGroup
			send := func(token, client string, want int) {
				all.Go(func() {
					_, err := v.Token(with(token, client))
					require.Equal(t, want, code(err))
				})
			}
			busy := func(n int) {
				t.Helper()
				require.Eventually(t, func() bool { _, busy, _ := k.state(); return busy == n }, time.Minute, time.Millisecond)
			}
			for i := range 40 {
				send(fmt.Sprint("bad ", i), address(i), 401)
			}
			busy(8)
			for i, other := range []string{"2001:db8:0:2::1", "192.0.2.2", "::ffff:192.0.2.3"} {
				send(fmt.Sprint("good ", i), other, 0)
			}
			busy(11)
			k.release()
			all.Wait()
			_, _, most := k.state()
			require.LessOrEqual(t, most, 11)
		})
	}
}
