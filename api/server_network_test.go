package api_test

import (
	"testing"

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

	// One host lists the network without its limit.
	_, err = schema.New(c.pool).ReportHost(t.Context(), schema.ReportHostParams{
		ID: compute.HostID{UUID: uuid.New()}, Name: "open", Traits: []string{}, Networks: []string{open, others}, CPUInfo: []byte("{}"),
		NetworkProjects: map[string][]string{}, AvailabilityZone: "nova", VCPUs: 8, MemoryMB: 8192, DiskGB: 100, VCPURatio: 1, MemoryRatio: 1, DiskRatio: 1,
	})
	require.NoError(t, err)
	c.do(t, member, "POST", "/servers", on(others), at("2.90")).fails(400, "badRequest", "Network "+others+" could not be found.")
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
