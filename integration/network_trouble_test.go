package integration_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/attachinterfaces"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/cloud"
)

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
	troubles := []string{serviceStops, serviceIsSlow, serviceFails, serviceIsMute}
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
		if round == 0 && !t.Run("create is deleted/"+serviceIsGone, w.isDeletedMeanwhile) {
			return
		}
		for i, operation := range operations {
			trouble := troubles[(begin+round+i)%len(troubles)]
			if !t.Run(operation+"/"+trouble, func(t *testing.T) { w.meets(t, operation, trouble) }) {
				return
			}
			if round == 0 && operation == "create" && !t.Run("live migrate is undone/"+serviceForbids, w.isUndone) {
				return
			}
		}
	}
	require.Equal(t, 1, c.portsOf(t, w.user, w.lan))
	c.nothingIsLeft(t)
}

// begin begins to create the server, with a port that strongroom makes and the one that its user brought.
func (w *wired) begin(t *testing.T) {
	t.Helper()
	s, err := servers.Create(t.Context(), w.asking(t, "-demo"), servers.CreateOpts{
		Name: "wired", FlavorRef: w.flavor(t, smallGuest), ImageRef: w.image,
		Networks: []servers.Network{{UUID: w.lan}, {Port: w.brought}},
	}, nil).Extract()
	require.NoError(t, err)
	w.server = s.ID
}

// meets does something with the server while something is wrong with Neutron.
func (w *wired) meets(t *testing.T, operation, trouble string) {
	t.Helper()
	w.proxies[cloud.Neutron].has(trouble)
	defer w.proxies[cloud.Neutron].has("")
	switch operation {
	case "create":
		w.begin(t)
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
	require.NotEmpty(t, w.proxies[cloud.Neutron].has(""), "nothing met the trouble")
	require.Empty(t, w.audit(t).Findings)
}

// isDeletedMeanwhile deletes a server whose ports cannot be made, nor looked for, until somebody is there again.
func (w *wired) isDeletedMeanwhile(t *testing.T) {
	neutron := w.proxies[cloud.Neutron]
	defer neutron.has("")
	neutron.has(serviceIsGone)
	w.begin(t)
	neutron.waits(t, 1, w.progress(w.server))
	require.NoError(t, servers.Delete(t.Context(), w.compute, w.server).ExtractErr())
	neutron.waits(t, neutron.hasMet()+5, w.progress(w.server)) // it tries, again and again
	require.NoError(t, servers.Get(t.Context(), w.compute, w.server).Err, "a port of it may be there")
	neutron.has("")
	w.gone(t, w.server)
	w.isWhole(t, "delete")
	require.Empty(t, w.audit(t).Findings)
}

// isUndone has a live migration begin that may prepare one of two ports at the other host, and no more: it cannot be undone either until
// somebody lets it change ports again.
func (w *wired) isUndone(t *testing.T) {
	neutron, host := w.proxies[cloud.Neutron], w.hostOf(t, w.server)
	defer neutron.has("")
	neutron.has(serviceForbids)
	require.NoError(t, w.liveMigrate(t, w.server, nil))
	neutron.waits(t, 1, w.progress(w.server))
	prepared := func() (n int) {
		for _, id := range []string{w.attached(t)[0].PortID, w.attached(t)[1].PortID} {
			n += len(bindingsOf(t, w.admin, id)) - 1
		}
		return n
	}
	neutron.waits(t, 3, w.progress(w.server)) // two of them are tries of its undo
	require.Equal(t, 1, prepared())
	s, err := servers.Get(t.Context(), w.compute, w.server).Extract()
	require.NoError(t, err)
	require.Equal(t, "MIGRATING", s.Status)
	neutron.has("")
	w.becomes(t, w.server, "ACTIVE")
	require.NotEmpty(t, w.newestAction(t, w.server).Message)
	require.Equal(t, host, w.hostOf(t, w.server))
	require.Zero(t, prepared())
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
