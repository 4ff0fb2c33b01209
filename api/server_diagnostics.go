package api

import (
	"fmt"
	"net/http"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/compute"
)

const ruleDiagnostics = "os_compute_api:os-server-diagnostics"

// diagnosticsFormed is the version from which on diagnostics have the same form for every hypervisor.
const diagnosticsFormed microversion.Version = 48

func (a *API) serverDiagnostics() Resource {
	return Resource{
		Rules:  policy.Rules{ruleDiagnostics: policy.Admin},
		Routes: []Route{{Method: http.MethodGet, Path: "/servers/:id/diagnostics", Handle: a.showDiagnostics}},
	}
}

// showDiagnostics asks a server's host what it counts of the machine that runs. Nothing of it is kept.
func (a *API) showDiagnostics(r *Request) (any, error) {
	row, err := a.findServer(r, ruleDiagnostics)
	if err != nil {
		return nil, err
	}
	s := row.Server
	if s.HostID == nil || deref(row.HostAgent) == "" {
		return nil, fault.Conflict("Instance %s is not ready", s.ID)
	}
	got, err := a.config.Hosts.Diagnostics(r.Context(), *s.HostID, *row.HostAgent, s.ID)
	if compute.Is(err, compute.NotFound) {
		got, err = compute.Diagnostics{State: compute.PowerShutdown}, nil
	}
	switch {
	case err != nil:
		return nil, err
	case got.State != compute.PowerRunning:
		return nil, fault.Conflict("Cannot 'get_diagnostics' instance %s while it is in power state %s", s.ID, got.State.Word())
	case r.Version < diagnosticsFormed:
		return olderDiagnostics(got), nil
	}
	var uptime int64
	if s.LaunchedAt != nil {
		uptime = int64(a.config.Now().Sub(*s.LaunchedAt).Seconds())
	}
	return viewDiagnostics(got, s.ConfigDrive, uptime), nil
}

// viewDiagnostics shows what the hypervisor counts; what it does not count is null.
func viewDiagnostics(d compute.Diagnostics, configDrive bool, uptime int64) map[string]any {
	cpus, disks, nics := []any{}, []any{}, []any{}
	for i, used := range d.CPUTimes {
		cpus = append(cpus, map[string]any{"id": i, "time": used, "utilisation": nil})
	}
	for _, u := range d.Disks {
		disks = append(disks, map[string]any{
			"read_bytes": u.ReadBytes, "read_requests": u.ReadRequests, "write_bytes": u.WriteBytes, "write_requests": u.WriteRequests, "errors_count": nil,
		})
	}
	for _, n := range d.NICs {
		nics = append(nics, map[string]any{
			"mac_address": n.MAC,
			"rx_octets":   n.In.Bytes, "rx_packets": n.In.Packets, "rx_errors": n.In.Errors, "rx_drop": n.In.Dropped, "rx_rate": nil,
			"tx_octets": n.Out.Bytes, "tx_packets": n.Out.Packets, "tx_errors": n.Out.Errors, "tx_drop": n.Out.Dropped, "tx_rate": nil,
		})
	}
	return map[string]any{
		"state": d.State.Word(), "driver": "libvirt", "hypervisor": d.Hypervisor, "hypervisor_os": "linux", "uptime": uptime, "config_drive": configDrive,
		"num_cpus": len(cpus), "num_disks": len(disks), "num_nics": len(nics),
		"cpu_details": cpus, "disk_details": disks, "nic_details": nics,
		"memory_details": map[string]any{"maximum": d.MemoryKB >> 10, "used": d.UsedKB >> 10}, // MiB
	}
}

// olderDiagnostics shows them as Nova with libvirt did before they had a form.
func olderDiagnostics(d compute.Diagnostics) map[string]any {
	out := map[string]any{"memory": d.MemoryKB, "memory-actual": d.UsedKB}
	for i, used := range d.CPUTimes {
		out[fmt.Sprintf("cpu%d_time", i)] = used
	}
	for _, u := range d.Disks {
		out[u.Name+"_read_req"], out[u.Name+"_read"] = u.ReadRequests, u.ReadBytes
		out[u.Name+"_write_req"], out[u.Name+"_write"], out[u.Name+"_errors"] = u.WriteRequests, u.WriteBytes, -1
	}
	for _, n := range d.NICs {
		for way, of := range map[string]compute.Traffic{"_rx": n.In, "_tx": n.Out} {
			out[n.Name+way], out[n.Name+way+"_packets"] = of.Bytes, of.Packets
			out[n.Name+way+"_errors"], out[n.Name+way+"_drop"] = of.Errors, of.Dropped
		}
	}
	return out
}
