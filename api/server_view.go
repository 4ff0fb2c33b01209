package api

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"strongroom/api/microversion"
	"strongroom/compute"
	"strongroom/schema"
)

// serverRow is a server with what is known of its host.
type serverRow = schema.FindServerRow

// serverView shows servers to one caller at one microversion, with exactly the
// keys that this version has (compute-api A.5).
type serverView struct {
	version  microversion.Version
	links    func(collection, id string) []Link
	bookmark func(parts ...string) string
	now      time.Time

	admin      bool // sees the details of every fault
	attributes bool // sees OS-EXT-SRV-ATTR
	hostStatus bool
	extraSpecs bool
	named      map[compute.SecurityGroupID]string // of the servers' ports
}

// serverView is for servers with such interfaces; none where it shows only their names.
func (a *API) serverView(r *Request, servers ...[]compute.Network) serverView {
	return serverView{
		named:   a.groupNames(r, servers...),
		version: r.Version, links: r.Links, bookmark: r.Bookmark, now: a.config.Now(), admin: r.IsAdmin(),
		attributes: r.Allowed(ruleAttributes), hostStatus: r.Allowed(ruleHostStatus), extraSpecs: r.Allowed(ruleListExtraSpecs),
	}
}

// basic is a server in GET /servers.
func (v serverView) basic(s listed) map[string]any {
	id := s.ID.String()
	return map[string]any{"id": id, "name": s.Name, "links": v.links("servers", id)}
}

// created is the answer of a create.
func (v serverView) created(id compute.ServerID, groups []string, diskConfig, password string) map[string]any {
	return map[string]any{
		"id": id.String(), "links": v.links("servers", id.String()), "OS-DCF:diskConfig": diskConfig,
		"security_groups": viewGroupNames(groups), "adminPass": password,
	}
}

// detail is a server in GET /servers/detail.
func (v serverView) detail(row serverRow) map[string]any {
	out := v.base(row)
	v.state(out, row)
	v.extended(out, row)
	return out
}

// shown is a server in GET /servers/{id}.
func (v serverView) shown(row serverRow) map[string]any {
	out := v.detail(row)
	v.groups(out, row)
	return out
}

// updated is the answer of an update: from 2.75 on the same as a show.
func (v serverView) updated(row serverRow) map[string]any {
	if v.version >= 75 {
		return v.shown(row)
	}
	out := v.base(row)
	out["addresses"] = addresses(row.Server.Networks, false) // as in Nova (K32)
	v.groups(out, row)
	return out
}

// rebuilt is the answer of a rebuild: that of an update, and what only a rebuild
// can change.
func (v serverView) rebuilt(row serverRow, password string) map[string]any {
	out := v.updated(row)
	if v.version >= 54 {
		out["key_name"] = row.Server.KeyName
	}
	if v.version >= 57 {
		delete(out, extendedAttribute+"user_data") // it is here once
		out["user_data"] = row.Server.UserData
	}
	out["adminPass"] = password
	return out
}

func (v serverView) groups(out map[string]any, row serverRow) {
	if v.version < 71 {
		return
	}
	groups := []compute.GroupID{}
	if row.GroupID != nil {
		groups = append(groups, *row.GroupID)
	}
	out["server_groups"] = groups
}

// base are the keys that every full view of a server has.
func (v serverView) base(row serverRow) map[string]any {
	s := row.Server
	status := compute.Status(s.VMState, s.TaskState)
	out := v.basic(listed{s.ID, s.Name})
	for key, value := range map[string]any{
		"status": status, "tenant_id": s.ProjectID, "user_id": s.UserID, "metadata": orEmpty(s.Metadata),
		"hostId": hostID(s.ProjectID, deref(row.HostName)), "image": v.image(s), "flavor": v.flavor(s.Flavor),
		"created": seconds(s.CreatedAt), "updated": seconds(changed(s)), "addresses": addresses(s.Networks, true),
		"accessIPv4": s.AccessIPv4, "accessIPv6": s.AccessIPv6, "OS-DCF:diskConfig": s.DiskConfig,
	} {
		out[key] = value
	}
	if compute.ShowsFault(status) && s.Fault != nil {
		out["fault"] = v.fault(*s.Fault)
	}
	if compute.ShowsProgress(status) {
		out["progress"] = s.Progress
	}
	for _, later := range []struct {
		since microversion.Version
		key   string
		value any
	}{
		{9, "locked", s.LockedBy != nil},
		{19, "description", s.Description},
		{26, "tags", orNone(s.Tags)},
		{63, "trusted_image_certificates", nil},
		{73, "locked_reason", s.LockedReason},
		{90, "OS-EXT-SRV-ATTR:hostname", s.Hostname},
		{96, "pinned_availability_zone", orNull(row.PinnedZone)},
	} {
		if v.version >= later.since {
			out[later.key] = later.value
		}
	}
	return out
}

// state are the keys of what a server is and does.
func (v serverView) state(out map[string]any, row serverRow) {
	s := row.Server
	out["key_name"] = s.KeyName
	out["config_drive"] = ""
	if s.ConfigDrive {
		out["config_drive"] = "True"
	}
	out["security_groups"] = securityGroups(s.Networks, v.named)
	out["OS-EXT-AZ:availability_zone"] = s.AvailabilityZone
	out["OS-EXT-STS:power_state"] = s.PowerState
	out["OS-EXT-STS:task_state"] = orNull(string(s.TaskState))
	out["OS-EXT-STS:vm_state"] = s.VMState
	out["os-extended-volumes:volumes_attached"] = []any{}
	out["OS-SRV-USG:launched_at"] = microseconds(s.LaunchedAt)
	out["OS-SRV-USG:terminated_at"] = microseconds(s.TerminatedAt)
}

const extendedAttribute = "OS-EXT-SRV-ATTR:"

// extended are the keys that administrators see.
func (v serverView) extended(out map[string]any, row serverRow) {
	s := row.Server
	if v.attributes {
		out[extendedAttribute+"host"] = row.HostName
		out[extendedAttribute+"hypervisor_hostname"] = row.HostName
		out[extendedAttribute+"instance_name"] = compute.InstanceName(s.ID)
	}
	if v.attributes && v.version >= 3 {
		out[extendedAttribute+"hostname"] = s.Hostname
		out[extendedAttribute+"kernel_id"] = ""
		out[extendedAttribute+"launch_index"] = s.LaunchIndex
		out[extendedAttribute+"ramdisk_id"] = ""
		out[extendedAttribute+"reservation_id"] = s.ReservationID
		out[extendedAttribute+"root_device_name"] = compute.DeviceName(compute.DiskBus(s.Image), 0)
		out[extendedAttribute+"user_data"] = s.UserData
	}
	if v.hostStatus && v.version >= 16 {
		out["host_status"] = hostCondition(row, v.now)
	}
}

func (v serverView) image(s schema.Server) any {
	if s.ImageID == nil {
		return ""
	}
	id := s.ImageID.String()
	return map[string]any{"id": id, "links": []Link{{Rel: "bookmark", Href: v.bookmark("images", id)}}}
}

func (v serverView) flavor(f compute.Flavor) map[string]any {
	if v.version < 47 {
		return map[string]any{"id": f.ID, "links": []Link{{Rel: "bookmark", Href: v.bookmark("flavors", f.ID)}}}
	}
	out := map[string]any{
		"vcpus": f.VCPUs, "ram": f.MemoryMB, "disk": f.RootGB, "ephemeral": f.EphemeralGB, "swap": f.SwapMB, "original_name": f.Name,
	}
	if v.extraSpecs {
		out["extra_specs"] = orEmpty(f.ExtraSpecs)
	}
	return out
}

// fault hides the details of what went wrong inside from everybody but
// administrators.
func (v serverView) fault(f compute.Fault) map[string]any {
	out := map[string]any{"code": f.Code, "created": seconds(f.Created), "message": f.Message}
	if f.Details != "" && (v.admin || f.Code != 500) {
		out["details"] = f.Details
	}
	return out
}

// hostID names a server's host without telling which it is: the same for all
// servers of a project on it, "" where there is none.
func hostID(projectID, host string) string {
	if host == "" {
		return ""
	}
	sum := sha256.Sum224([]byte(projectID + host))
	return hex.EncodeToString(sum[:])
}

func hostCondition(row serverRow, now time.Time) string {
	switch {
	case row.HostName == nil:
		return ""
	case deref(row.HostForcedDown):
		return "DOWN"
	case deref(row.HostDisabled):
		return "MAINTENANCE"
	case row.HostLastSeen != nil && now.Sub(*row.HostLastSeen) < compute.HostTimeout:
		return "UP"
	default:
		return "UNKNOWN"
	}
}

func changed(s schema.Server) time.Time {
	if s.UpdatedAt != nil {
		return *s.UpdatedAt
	}
	return s.CreatedAt
}
