package api

import (
	"cmp"
	"net/http"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/schema"
)

// hostsUntil is the last version that has hosts. Their services and hypervisors tell the same.
const hostsUntil microversion.Version = 42

// notOffered is what Nova says of what the hypervisor's driver does not do.
const notOffered = "The requested functionality is not supported."

var hostBody = validation.Always(validation.Object(nil, validation.Properties{
	"status":           validation.Enum("enable", "disable", "Enable", "Disable", "ENABLE", "DISABLE"),
	"maintenance_mode": validation.Enum("enable", "disable", "Enable", "Disable", "ENABLE", "DISABLE"),
}))

// hosts are the hosts as they were asked for in older versions. As in Nova with libvirt, they cannot be switched here.
func (a *API) hosts() Resource {
	const (
		root = "os_compute_api:os-hosts:"
		path = "/os-hosts/:name"
	)
	routes := []Route{
		{Method: http.MethodGet, Path: "/os-hosts", Rule: root + "list", Handle: a.listHosts},
		{Method: http.MethodGet, Path: path, Rule: root + "show", Handle: a.showHost},
		{Method: http.MethodPut, Path: path, Rule: root + "update", Body: hostBody, Refused: notOffered, Handle: a.refuseHost},
	}
	rules := policy.Rules{root + "list": policy.Admin, root + "show": policy.Admin, root + "update": policy.Admin}
	for verb, rule := range map[string]string{"startup": root + "start", "shutdown": root + "shutdown", "reboot": root + "reboot"} {
		rules[rule] = policy.Admin
		routes = append(routes, Route{Method: http.MethodGet, Path: path + "/" + verb, Rule: rule, Refused: notOffered, Handle: a.refuseHost})
	}
	for i := range routes {
		routes[i].Max = hostsUntil
	}
	return Resource{Rules: rules, Routes: routes}
}

func (a *API) listHosts(r *Request) (any, error) {
	rows, err := a.db.HostsWithUse(r.Context(), nil)
	if err != nil {
		return nil, err
	}
	all := []any{}
	for _, h := range rows {
		if !h.Disabled && wanted(r, "zone", h.Zone) {
			all = append(all, map[string]any{"host_name": h.Name, "service": "compute", "zone": h.Zone})
		}
	}
	return map[string]any{"hosts": all}, nil
}

// hostNamed finds a host by its name.
func (a *API) hostNamed(r *Request) (schema.HostsWithUseRow, error) {
	name := r.Param("name")
	rows, err := a.db.HostsWithUse(r.Context(), &name)
	if err != nil || len(rows) == 0 {
		return schema.HostsWithUseRow{}, cmp.Or[error](err, fault.NotFound("Compute host %s could not be found.", name))
	}
	return rows[0], nil
}

// showHost gives what a host has, what of it is used, and by which projects' servers.
func (a *API) showHost(r *Request) (any, error) {
	h, err := a.hostNamed(r)
	if err != nil {
		return nil, err
	}
	projects, err := a.db.HostUseByProject(r.Context(), h.ID)
	if err != nil {
		return nil, err
	}
	var all []any
	add := func(project string, vcpus, memory, disk int64) {
		all = append(all, map[string]any{"resource": map[string]any{
			"host": h.Name, "project": project, "cpu": vcpus, "memory_mb": memory, "disk_gb": disk,
		}})
	}
	use, held := useOf(h), hypervisorUse{}
	for _, p := range projects {
		held.add(hypervisorUse{vcpus: p.VCPUs, memory: p.MemoryMB, disk: p.DiskGB})
	}
	add("(total)", use.vcpus, use.memory, use.disk)
	add("(used_now)", use.vcpusUsed, use.memoryUsed, use.diskUsed)
	add("(used_max)", held.vcpus, held.memory, held.disk)
	for _, p := range projects {
		add(p.ProjectID, p.VCPUs, p.MemoryMB, p.DiskGB)
	}
	return map[string]any{"host": all}, nil
}

func (a *API) refuseHost(r *Request) (any, error) {
	if _, err := a.hostNamed(r); err != nil {
		return nil, err
	}
	return nil, fault.Errorf(http.StatusNotImplemented, notOffered)
}
