package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestDiagnostics(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.create(nil)
	path := "/servers/" + id + "/diagnostics"
	c.do(t, admin, "GET", path, "").fails(409, "conflictingRequest", "Instance "+id+" is not ready")
	c.settle(id, compute.VMActive, compute.TaskNone)
	c.consoles.told = compute.Diagnostics{
		State: compute.PowerRunning, Hypervisor: "kvm", MemoryKB: 512 << 10, UsedKB: 256 << 10, CPUTimes: []int64{7, 8},
		Disks: []compute.DiskUse{{Name: "vda", ReadRequests: 1, ReadBytes: 2, WriteRequests: 3, WriteBytes: 4}},
		NICs: []compute.NICUse{{
			Name: "vnet0", MAC: "fa:16:3e:00:00:01", In: compute.Traffic{Bytes: 1, Packets: 2, Errors: 3, Dropped: 4},
			Out: compute.Traffic{Bytes: 5, Packets: 6, Errors: 7, Dropped: 8},
		}},
	}
	c.do(t, admin, "GET", path, "", at("2.47")).is(200, `{"memory":524288,"memory-actual":262144,"cpu0_time":7,"cpu1_time":8,
		"vda_read_req":1,"vda_read":2,"vda_write_req":3,"vda_write":4,"vda_errors":-1,
		"vnet0_rx":1,"vnet0_rx_packets":2,"vnet0_rx_errors":3,"vnet0_rx_drop":4,"vnet0_tx":5,"vnet0_tx_packets":6,"vnet0_tx_errors":7,"vnet0_tx_drop":8}`)
	got := c.do(t, admin, "GET", path, "", at("2.48")).ok(200)
	require.Equal(t, map[string]any{"maximum": 512.0, "used": 256.0}, got.get("memory_details"))
	require.Equal(t, []any{2.0, 1.0, 1.0}, []any{got.get("num_cpus"), got.get("num_disks"), got.get("num_nics")})
	require.InDelta(t, 8.0, got.get("cpu_details", 1, "time"), 0)
	require.InDelta(t, 4.0, got.get("disk_details", 0, "write_bytes"), 0)
	require.Equal(t, "fa:16:3e:00:00:01", got.get("nic_details", 0, "mac_address"))
	require.InDelta(t, 8.0, got.get("nic_details", 0, "tx_drop"), 0)
	require.Equal(t, "http://agent", c.consoles.url)

	c.consoles.told.State = compute.PowerPaused
	c.do(t, admin, "GET", path, "").fails(409, "conflictingRequest", "Cannot 'get_diagnostics' instance "+id+" while it is in power state paused")
	c.consoles.err = compute.Errorf(compute.NotFound, "none")
	c.do(t, admin, "GET", path, "").fails(409, "conflictingRequest", "Cannot 'get_diagnostics' instance "+id+" while it is in power state shutdown")
	c.consoles.err = compute.Errorf(compute.Unavailable, "the host of server %s does not answer", id)
	c.do(t, admin, "GET", path, "").fails(503, "serviceUnavailable", "the host of server "+id+" does not answer")
	c.do(t, member, "GET", path, "").fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-server-diagnostics to be performed.")
}
