package integration_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/attachinterfaces"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/stretchr/testify/require"
)

// What can be wrong with Neutron. It begins with the first request that changes something.
const (
	neutronStops  = "stopped" // for cutFor nobody answers
	neutronIsSlow = "slow"    // each answer takes neutronTakes
	neutronFails  = "500"     // the first changes are answered with it
	neutronIsMute = "lost"    // the first change of each method is made, and its answer lost
)

const (
	neutronTakes = 3 * time.Second
	refusals     = 3
)

// neutronDoor is what strongroom takes for Neutron: it stands before the real one.
type neutronDoor struct {
	*httptest.Server
	neutron http.Handler
	mu      sync.Mutex
	trouble string
	since   time.Time // when it began
	met     []string  // the requests that met it
}

func openNeutronDoor(port int) *neutronDoor {
	d := &neutronDoor{neutron: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:" + strconv.Itoa(port)})}
	d.Server = httptest.NewServer(d)
	return d
}

// ServeHTTP implements http.Handler.
func (d *neutronDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch d.meets(r) {
	case neutronStops:
		panic(http.ErrAbortHandler)
	case neutronFails:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"NeutronError": {"type": "HTTPInternalServerError", "message": "canary", "detail": ""}}`))
	case neutronIsMute:
		d.neutron.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case neutronIsSlow:
		time.Sleep(neutronTakes)
		fallthrough
	default:
		d.neutron.ServeHTTP(w, r)
	}
}

// meets gives the trouble that a request meets; "": none.
func (d *neutronDoor) meets(r *http.Request) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	changes := r.Method != http.MethodGet
	if d.trouble == "" || d.since.IsZero() && !changes {
		return ""
	}
	if d.since.IsZero() {
		d.since = time.Now()
	}
	switch {
	case d.trouble == neutronStops && time.Since(d.since) > cutFor,
		d.trouble == neutronFails && (!changes || len(d.met) >= refusals),
		d.trouble == neutronIsMute && (!changes || slices.Contains(d.met, r.Method)):
		return ""
	}
	d.met = append(d.met, r.Method)
	return d.trouble
}

// has sets what is wrong with Neutron from now on, "" for nothing, and gives the requests that met what was.
func (d *neutronDoor) has(trouble string) (met []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	met = d.met
	d.trouble, d.since, d.met = trouble, time.Time{}, nil
	return met
}

// wired is a server with a port that strongroom made and one that its user brought.
type wired struct {
	pluggable
	brought string
}

// Neutron stops, is slow, answers with errors or gives no answer to what it does, in the middle of what is done with
// the ports of a server: each operation ends well, no port is left or bound twice, and the audit finds nothing.
func TestKillMatrixNeutron(t *testing.T) {
	backends(t, openStack)
	c := networkCloudOf(t, 2)
	w := &wired{}
	w.pluggable = pluggable{testCloud: c, compute: c.compute(t, "-demo"), user: c.networking(t, "-demo"), admin: c.networking(t, "")}
	w.lan = newLAN(t, w.user).ID
	w.brought = w.bring(t, "mine")
	troubles := []string{neutronStops, neutronIsSlow, neutronFails, neutronIsMute}
	rounds, moves, begin := len(troubles), []string{"live migrate", "migrate", "shelve"}, 0
	if sampled() {
		d := diceOf("neutron")
		begin, rounds = d.IntN(len(troubles)), 1
		moves = []string{moves[d.IntN(len(moves))]}
	}
	operations := slices.Concat([]string{"create", "attach", "detach"}, moves, []string{"delete"})
	if i := slices.Index(operations, "shelve"); i >= 0 {
		operations = slices.Insert(operations, i+1, "unshelve")
	}
	for round := range rounds {
		for i, operation := range operations {
			trouble := troubles[(begin+round+i)%len(troubles)]
			if !t.Run(operation+"/"+trouble, func(t *testing.T) { w.meets(t, operation, trouble) }) {
				return
			}
		}
	}
	require.Equal(t, 1, c.portsOf(t, w.user, w.lan))
	c.nothingIsLeft(t)
}

// meets does something with the server while something is wrong with Neutron.
func (w *wired) meets(t *testing.T, operation, trouble string) {
	t.Helper()
	w.neutron.has(trouble)
	defer w.neutron.has("")
	switch operation {
	case "create":
		s, err := servers.Create(t.Context(), w.asking(t, "-demo"), servers.CreateOpts{
			Name: "wired", FlavorRef: w.flavor(t, smallGuest), ImageRef: w.image,
			Networks: []servers.Network{{UUID: w.lan}, {Port: w.brought}},
		}, nil).Extract()
		require.NoError(t, err)
		w.server = s.ID
	case "attach":
		w.console(t, w.server, "TG ready", 1)
		if _, err := w.attach(t, attachinterfaces.CreateOpts{NetworkID: w.lan}); err != nil { // it waits for a while only
			require.True(t, gophercloud.ResponseCodeIs(err, http.StatusServiceUnavailable), "%v", err)
		}
	case "detach":
		w.detach(t, w.attached(t)[2].PortID)
	case "live migrate":
		require.NoError(t, w.liveMigrate(t, w.server, nil))
	case "migrate":
		require.NoError(t, servers.Migrate(t.Context(), w.testCloud.compute(t, ""), w.server).ExtractErr())
		w.becomes(t, w.server, "VERIFY_RESIZE")
		require.NoError(t, servers.ConfirmResize(t.Context(), w.compute, w.server).ExtractErr())
	case "shelve":
		require.NoError(t, servers.Shelve(t.Context(), w.compute, w.server).ExtractErr())
	case "unshelve":
		w.unshelve(t, w.server)
	case "delete":
		w.delete(t, w.server)
	}
	w.isWhole(t, operation)
	require.NotEmpty(t, w.neutron.has(""), "nothing met the trouble")
	require.Empty(t, w.audit(t).Findings)
}

// isWhole requires that the server's ports, and no others, are there, bound to its host alone.
func (w *wired) isWhole(t *testing.T, operation string) {
	t.Helper()
	own, host := 1, ""
	switch operation {
	case "delete":
		own = 0
	case "shelve":
		w.becomes(t, w.server, "SHELVED_OFFLOADED")
	case "attach":
		own = 2
		fallthrough
	default:
		w.becomes(t, w.server, "ACTIVE")
		require.Empty(t, w.newestAction(t, w.server).Message)
		host = hostName(t, w.hostOf(t, w.server))
	}
	pages, err := ports.List(w.user, ports.ListOpts{NetworkID: w.lan}).AllPages(t.Context())
	require.NoError(t, err)
	all, err := ports.ExtractPorts(pages)
	require.NoError(t, err)
	all = slices.DeleteFunc(all, func(p ports.Port) bool { return p.DeviceOwner != "" && p.DeviceOwner != "compute:nova" })
	require.Len(t, all, own+1)
	for _, p := range all {
		bound, _ := w.port(t, p.ID)
		require.Equal(t, host, bound.HostID)
		if operation == "delete" { // Neutron tells the bindings of servers' ports alone
			require.Equal(t, []string{w.brought, "", "unbound"}, []string{p.ID, p.DeviceID, bound.VIFType})
			continue
		}
		require.Equal(t, w.server, p.DeviceID)
		for _, h := range bindingsOf(t, w.admin, p.ID) {
			require.Equal(t, host, h, "it is bound to its server's host alone")
		}
	}
}
