package integration_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"strongroom/deploy/await"
	"strongroom/deploy/cloud"
)

// What can be wrong with a service of the cloud. It begins with the first request that changes something.
const (
	serviceStops   = "stopped" // for cutFor nobody answers
	serviceIsSlow  = "slow"    // each answer takes serviceTakes
	serviceFails   = "500"     // the first changes are answered with it
	serviceRefuses = "409"     // so are they
	serviceIsMute  = "lost"    // the first change of each method is made, and its answer lost

	// These last until another one is set.
	serviceIsGone  = "gone" // nobody answers
	serviceForbids = "403"  // each change but the first is answered with it
)

const (
	serviceTakes = 3 * time.Second
	refusals     = 3
)

const manilaService = "manila"

// behindProxies are the services that strongroom reaches through a proxy: where it is told of one, the path of the API that it is told of, and what an
// error of that service looks like.
var behindProxies = map[string]struct{ setting, path, fault string }{
	cloud.Neutron: {"STRONGROOM_NETWORKS__ENDPOINT", "", `{"NeutronError": {"type": "HTTPInternalServerError", "message": "canary", "detail": ""}}`},
	manilaService: {"STRONGROOM_SHARES__ENDPOINT", "/v2", `{"computeFault": {"code": 500, "message": "canary"}}`},
}

// faultProxy is what strongroom takes for a service: it stands before the real one.
type faultProxy struct {
	*httptest.Server
	service http.Handler
	fault   string
	asked   atomic.Int64 // how many requests have come
	mu      sync.Mutex
	trouble string
	since   time.Time // when it began
	met     []string  // the requests that met it
}

func newFaultProxy(port int, fault string) *faultProxy {
	d := &faultProxy{service: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:" + strconv.Itoa(port)}), fault: fault}
	d.Server = httptest.NewServer(d)
	return d
}

// ServeHTTP implements http.Handler.
func (d *faultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.asked.Add(1)
	trouble := d.meets(r)
	switch trouble {
	case serviceStops, serviceIsGone:
		panic(http.ErrAbortHandler)
	case serviceFails, serviceRefuses, serviceForbids:
		w.Header().Set("Content-Type", "application/json")
		status, _ := strconv.Atoi(trouble)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(d.fault))
	case serviceIsMute:
		d.service.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case serviceIsSlow:
		select {
		case <-r.Context().Done():
		case <-time.After(serviceTakes):
		}
		fallthrough
	default:
		d.service.ServeHTTP(w, r)
	}
}

// meets gives the trouble that a request meets; "": none.
func (d *faultProxy) meets(r *http.Request) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	changes := r.Method != http.MethodGet
	if d.trouble == "" || d.since.IsZero() && !changes {
		return ""
	}
	first := d.since.IsZero()
	if first {
		d.since = time.Now()
	}
	switch d.trouble {
	case serviceStops:
		if time.Since(d.since) > cutFor {
			return ""
		}
	case serviceForbids:
		if !changes || first {
			return ""
		}
	case serviceFails, serviceRefuses:
		if !changes || len(d.met) >= refusals {
			return ""
		}
	case serviceIsMute:
		if !changes || slices.Contains(d.met, r.Method) {
			return ""
		}
	}
	d.met = append(d.met, r.Method)
	return d.trouble
}

// waits waits until so many requests have met the trouble.
func (d *faultProxy) waits(t *testing.T, requests int, operation await.Witness) {
	t.Helper()
	await.For(t, fmt.Sprintf("%d requests have met what is wrong", requests), func() bool { return d.hasMet() >= requests }, operation,
		await.Witness{Name: "have met it", Look: func() string { return strconv.Itoa(d.hasMet()) }})
}

// hasMet counts the requests that have met the trouble.
func (d *faultProxy) hasMet() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.met)
}

// isAsked waits for a request that has come since there were so many.
func (d *faultProxy) isAsked(t *testing.T, since int64, operation await.Witness) {
	t.Helper()
	await.For(t, "the service is asked", func() bool { return d.asked.Load() > since }, operation)
}

// has sets what is wrong with the service from now on, "" for nothing, and gives the requests that met what was.
func (d *faultProxy) has(trouble string) (met []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	met = d.met
	d.trouble, d.since, d.met = trouble, time.Time{}, nil
	return met
}
