package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"strongroom/api/metadata"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// Guests of networks.local are answered at their gateway, also where that is no address of the machine yet, and each is
// told of the server that has its address.
func TestGuestsAreAnsweredAtTheirGateways(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp4", "127.99.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	database := schema.Metadata{Pool: schematest.New(t)}
	q := schema.New(database.Pool)
	server, image := compute.ServerID{UUID: uuid.New()}, compute.ImageID{UUID: uuid.New()}
	require.NoError(t, q.InsertServer(t.Context(), schema.InsertServerParams{
		ID: server, ProjectID: "p", UserID: "u", Name: "Vault", Hostname: "vault", ReservationID: "r-1", VMState: compute.VMActive,
		AvailabilityZone: "nova", Flavor: compute.Flavor{Name: "safe"}, ImageID: &image, RequiredTraits: []string{}, ForbiddenTraits: []string{},
		Networks: []compute.Network{}, Metadata: map[string]string{}, Tags: []string{},
	}))
	cfg := defaults()
	cfg.Networks.Backend, cfg.Metadata.LocalPort = "local", int(netip.MustParseAddrPort(address).Port())
	lan := uuid.New()
	cfg.Networks.Local = []LocalNetworkConfig{
		{UUID: lan.String(), Name: "lan", Hosts: []string{"h"}, Bridge: "br", CIDR: "127.99.0.0/24", Gateway: "127.99.0.1"},
		{UUID: uuid.NewString(), Name: "not up", Hosts: []string{"h"}, Bridge: "br", CIDR: "192.0.2.0/24", Gateway: "192.0.2.1"},
	}
	require.NoError(t, q.InsertLocalPort(t.Context(), schema.InsertLocalPortParams{
		ID: compute.PortID{UUID: uuid.New()}, ProjectID: "p", Name: "one", NetworkID: compute.NetworkID{UUID: lan}, Address: "127.99.0.5", Mac: "fa:72:7f:63:00:05", ServerID: &server,
	}))
	ctx, stop := context.WithCancel(t.Context())
	var serving errgroup.Group
	here := &run{Context: ctx, log: slog.New(slog.DiscardHandler)}
	require.NoError(t, serveLocalGuests(here, cfg, database, metadata.Config{Servers: database}, serving.Go))
	ask := func(from string) (int, string) {
		client := http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext, DisableKeepAlives: true}}
		response, err := client.Get("http://" + address + "/latest/meta-data/hostname")
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}
	code, said := ask("127.99.0.5")
	require.Equal(t, http.StatusOK, code, said)
	require.Contains(t, said, "vault")
	code, said = ask("127.99.0.6")
	require.Equal(t, http.StatusNotFound, code, said)
	stop()
	require.NoError(t, serving.Wait())
}
