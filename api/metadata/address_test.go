package metadata_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api/metadata"
	"strongroom/compute"
	"strongroom/schema"
)

// Without a proxy a guest is known by the address that it has on a network, whatever its headers say.
func TestGuestsAreKnownByTheirAddresses(t *testing.T) {
	t.Parallel()
	k := setup(t)
	server := compute.ServerID{UUID: uuid.MustParse(k.id)}
	network, port := compute.NetworkID{UUID: uuid.New()}, compute.PortID{UUID: uuid.New()}
	require.NoError(t, schema.New(k.pool).InsertLocalPort(t.Context(), schema.InsertLocalPortParams{
		ID: port, ProjectID: project, Name: "one", NetworkID: network, Address: "127.0.0.1", Mac: "fa:72:7f:00:00:01", ServerID: &server,
	}))
	database := schema.Metadata{Pool: k.pool}
	on := func(network compute.NetworkID) {
		k.http.Close()
		k.http = httptest.NewServer(metadata.New(metadata.Config{Servers: database, Owner: func(ctx context.Context, a netip.Addr) (compute.ServerID, string, error) {
			return database.AddressOwner(ctx, network, a)
		}}))
		t.Cleanup(k.http.Close)
	}
	on(network)
	for _, claim := range []string{k.id, uuid.NewString()} {
		status, said, _ := k.get("/latest/meta-data/hostname", func(h http.Header) { h.Set("X-Instance-ID", claim); h.Set("X-Forwarded-For", "10.0.0.8") })
		require.Equal(t, http.StatusOK, status, said)
		require.Contains(t, said, "vault")
	}
	on(compute.NetworkID{UUID: uuid.New()})
	status, said, _ := k.get("/latest/meta-data/hostname", nil)
	require.Equal(t, http.StatusNotFound, status, said)
	on(network)
	k.exec("UPDATE local_ports SET server_id = NULL")
	status, said, _ = k.get("/latest/meta-data/hostname", nil)
	require.Equal(t, http.StatusNotFound, status, said)
}
