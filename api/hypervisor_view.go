package api

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"strongroom/compute"
	"strongroom/schema"
)

type hypervisorView = map[string]any

// hypervisorMarker is what names a host in pages.
func hypervisorMarker(r *Request, h schema.HostsWithUseRow) string {
	return fmt.Sprint(hostNumber(r, withoutUse(h)))
}

func (a *API) viewHypervisors(r *Request, hosts []schema.HostsWithUseRow, detail, withServers bool) ([]hypervisorView, error) {
	var servers map[compute.HostID][]map[string]any
	if withServers {
		var err error
		if servers, err = a.serversOn(r, hosts); err != nil {
			return nil, err
		}
	}
	views := make([]hypervisorView, len(hosts))
	for i, h := range hosts {
		views[i] = a.viewHypervisor(r, h, detail)
		if list := servers[h.ID]; len(list) > 0 {
			views[i]["servers"] = list
		} else if withServers && r.Version >= 75 {
			views[i]["servers"] = []any{}
		}
	}
	return views, nil
}

// serversOn gives the servers of hosts, by host.
func (a *API) serversOn(r *Request, hosts []schema.HostsWithUseRow) (map[compute.HostID][]map[string]any, error) {
	ids := make([]uuid.UUID, len(hosts))
	for i, h := range hosts {
		ids[i] = h.ID.UUID
	}
	rows, err := a.db.ServersOnHosts(r.Context(), ids)
	if err != nil {
		return nil, err
	}
	servers := map[compute.HostID][]map[string]any{}
	for _, s := range rows {
		servers[*s.HostID] = append(servers[*s.HostID], map[string]any{"name": s.Name, "uuid": s.ID})
	}
	return servers, nil
}

func (a *API) viewHypervisor(r *Request, h schema.HostsWithUseRow, detail bool) hypervisorView {
	host := withoutUse(h)
	view := hypervisorView{
		"id": hostNumber(r, host), "hypervisor_hostname": h.Name, "state": a.hostState(host), "status": hostStatus(host),
	}
	if !detail {
		return view
	}
	view["hypervisor_type"], view["hypervisor_version"], view["host_ip"] = h.HypervisorType, h.HypervisorVersion, h.Address
	view["service"] = map[string]any{"id": hostNumber(r, host), "host": h.Name, "disabled_reason": h.DisabledReason}
	if r.Version >= 88 {
		view["uptime"] = nil
		if h.Uptime != "" && a.hostUp(host) {
			view["uptime"] = h.Uptime
		}
		return view
	}
	useOf(h).write(view)
	view["cpu_info"] = json.RawMessage(h.CPUInfo)
	if r.Version < 28 {
		view["cpu_info"] = string(h.CPUInfo)
	}
	return view
}

// hypervisorUse is what a host has and what is claimed of it.
type hypervisorUse struct {
	vcpus, vcpusUsed, memory, memoryUsed, disk, diskUsed, servers int64
}

// useOf gives a host's use. What is reserved for the host itself counts as used. Its disk is that
// of its file system and its volume group.
func useOf(h schema.HostsWithUseRow) hypervisorUse {
	use := hypervisorUse{
		vcpus: int64(h.VCPUs), vcpusUsed: h.VcpusUsed, memory: int64(h.MemoryMB), memoryUsed: int64(h.ReservedMemoryMB) + h.MemoryMbUsed,
		disk: int64(h.DiskGB), diskUsed: h.DiskGbUsed + (h.GroupMBUsed+1023)/1024, servers: h.Servers,
	}
	if h.GroupMB != nil {
		use.disk += *h.GroupMB / 1024
	}
	return use
}

func (u *hypervisorUse) add(other hypervisorUse) {
	u.vcpus += other.vcpus
	u.vcpusUsed += other.vcpusUsed
	u.memory += other.memory
	u.memoryUsed += other.memoryUsed
	u.disk += other.disk
	u.diskUsed += other.diskUsed
	u.servers += other.servers
}

// write puts the counters into a view. Free room is negative on a host that is
// overcommitted.
func (u hypervisorUse) write(view map[string]any) {
	view["vcpus"], view["vcpus_used"] = u.vcpus, u.vcpusUsed
	view["memory_mb"], view["memory_mb_used"], view["free_ram_mb"] = u.memory, u.memoryUsed, u.memory-u.memoryUsed
	view["local_gb"], view["local_gb_used"], view["free_disk_gb"] = u.disk, u.diskUsed, u.disk-u.diskUsed
	view["disk_available_least"] = u.disk - u.diskUsed
	view["running_vms"], view["current_workload"] = u.servers, 0
}
