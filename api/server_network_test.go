package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
)

// TestH8NetworksOfOtherProjects: to those whom a network is not for, it is not there.
func TestH8NetworksOfOtherProjects(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	open, mine, others := uuid.NewString(), uuid.NewString(), uuid.NewString()
	offer := func(private map[string][]string, networks ...string) {
		c.exec(`UPDATE hosts SET networks = $1, network_projects = $2`, networks, private)
	}
	on := func(network string) string {
		return c.body(map[string]any{"networks": []any{map[string]any{"uuid": network}}})
	}
	offer(map[string][]string{mine: {"another", project}, others: {"another"}}, open, mine, others)
	c.do(t, member, "POST", "/servers", on(others), at("2.90")).fails(400, "badRequest", "Network "+others+" could not be found.")
	require.Equal(t, 202, c.do(t, member, "POST", "/servers", on(mine), at("2.90")).code)
	require.Equal(t, 202, c.do(t, member, "POST", "/servers", on(open), at("2.90")).code)

	offer(map[string][]string{others: {"another"}}, open, others)
	id := c.create(map[string]any{"networks": "auto"})
	row, err := schema.New(c.pool).GetServer(t.Context(), compute.ServerID{UUID: uuid.MustParse(id)})
	require.NoError(t, err)
	require.Equal(t, open, row.Networks[0].UUID, "the one network that the project has")

	c.report("open", nil, open, others) // it lists the network without its limit
	c.do(t, member, "POST", "/servers", on(others), at("2.90")).fails(400, "badRequest", "Network "+others+" could not be found.")
}

// report adds a host that says this of networks.
func (c *cloud) report(name string, private map[string][]string, networks ...string) compute.HostID {
	c.t.Helper()
	id := compute.HostID{UUID: uuid.New()}
	_, err := schema.New(c.pool).ReportHost(c.t.Context(), schema.ReportHostParams{
		ID: id, Name: name, Traits: []string{}, Networks: networks, CPUInfo: []byte("{}"), NetworkProjects: private,
		AvailabilityZone: "nova", VCPUs: 8, MemoryMB: 8192, DiskGB: 100, VCPURatio: 1, MemoryRatio: 1, DiskRatio: 1,
	})
	require.NoError(c.t, err)
	return id
}

// TestH8ARevokedHostLimitsNoNetwork: a lost host takes a network from every project until it is revoked, and
// offers none from then on. That its certificate ends opens no network.
func TestH8ARevokedHostLimitsNoNetwork(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	q, network, invented := schema.New(c.pool), uuid.NewString(), uuid.NewString()
	on := func(network string) answer {
		t.Helper()
		return c.do(t, member, "POST", "/servers", c.body(map[string]any{"networks": []any{map[string]any{"uuid": network}}}), at("2.90"))
	}
	certify := func(host compute.HostID, serial string) {
		t.Helper()
		require.NoError(t, q.AddHostCertificate(t.Context(), schema.AddHostCertificateParams{
			Serial: serial, HostID: host, HostName: "lost", PublicKey: []byte(serial), SealingKey: []byte(serial), NotAfter: time.Now().Add(time.Hour),
		}))
	}
	c.exec(`UPDATE hosts SET networks = ARRAY[$1]`, network)
	lost := c.report("lost", map[string][]string{network: {}}, network, invented)
	certify(lost, "1")
	certify(lost, "2")
	on(network).fails(400, "badRequest", "Network "+network+" could not be found.")
	require.Equal(t, 202, on(invented).code)
	c.exec(`UPDATE host_certificates SET not_after = now() - interval '1 day'`)
	on(network).fails(400, "badRequest", "Network "+network+" could not be found.")

	revoked, err := q.RevokeHost(t.Context(), "lost")
	require.NoError(t, err)
	require.Equal(t, int64(2), revoked)
	require.Equal(t, 202, on(network).code)
	on(invented).fails(400, "badRequest", "Network "+invented+" could not be found.")

	certify(lost, "3") // it is enrolled once more
	on(network).fails(400, "badRequest", "Network "+network+" could not be found.")
}

// TestH8WhatOneHostInventsIsNotAutomatic: a network that a single host has, and another writing of one that
// others have, change nothing for those who leave the choice.
func TestH8WhatOneHostInventsIsNotAutomatic(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	network := "5c1e0f5e-0c64-4b3c-8f1d-2b64a3a0d001"
	attached := func(networks any) string {
		t.Helper()
		row, err := schema.New(c.pool).GetServer(t.Context(), compute.ServerID{UUID: uuid.MustParse(c.create(map[string]any{"networks": networks}))})
		require.NoError(t, err)
		require.Len(t, row.Networks, 1)
		return row.Networks[0].UUID
	}
	c.exec(`UPDATE hosts SET networks = ARRAY[$1]`, network)
	require.Equal(t, network, attached("auto"), "of one host alone")
	c.report("second", nil, network)
	c.report("lost", nil, strings.ToUpper(network), strings.ToUpper(network), strings.ToUpper(network), uuid.NewString())
	require.Equal(t, network, attached("auto"))
	require.Equal(t, network, attached([]any{map[string]any{"uuid": network}}), "as most hosts write it")

	c.exec(`UPDATE hosts SET networks = networks || $1::text WHERE name <> 'lost'`, uuid.NewString())
	c.do(t, member, "POST", "/servers", c.body(map[string]any{"networks": "auto"}), at("2.90")).
		fails(409, "conflictingRequest", "Multiple possible networks found, use a Network ID to be more specific.")
}

// TestH8NoTwoServersHaveOneMACAddress: while a create looks for an address, another server takes it.
func TestH8NoTwoServersHaveOneMACAddress(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	network := uuid.NewString()
	c.exec(`UPDATE hosts SET networks = ARRAY[$1]`, network)
	other := c.create(map[string]any{"networks": "none"})
	c.exec(`CREATE FUNCTION be_first() RETURNS trigger AS $$ BEGIN
		IF pg_trigger_depth() = 1 AND NOT EXISTS (SELECT FROM server_macs WHERE server_id = '` + other + `') THEN
			INSERT INTO server_macs (mac, server_id) VALUES (NEW.mac, '` + other + `');
		END IF;
		RETURN NEW;
	END $$ LANGUAGE plpgsql`)
	c.exec(`CREATE TRIGGER be_first BEFORE INSERT ON server_macs FOR EACH ROW EXECUTE FUNCTION be_first()`)
	id := c.create(map[string]any{"networks": "auto"})
	row, err := schema.New(c.pool).GetServer(t.Context(), compute.ServerID{UUID: uuid.MustParse(id)})
	require.NoError(t, err)
	require.Equal(t, 1, c.count(`SELECT count(*) FROM server_macs WHERE mac = $1 AND server_id = $2`, row.Networks[0].MAC, id))
	require.Equal(t, 1, c.count(`SELECT count(*) FROM server_macs WHERE server_id = $1`, other))
}
