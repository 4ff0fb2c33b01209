package api

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/validation"
	"strongroom/compute"
)

// filterSince says from which version on everybody may filter by something.
// Administrators may filter by everything at once.
var filterSince = map[string]microversion.Version{
	"reservation_id": 1, "name": 1, "status": 1, "image": 1, "flavor": 1, "ip": 1, "changes-since": 1, "all_tenants": 1,
	"ip6": 5, "tags": 26, "tags-any": 26, "not-tags": 26, "not-tags-any": 26, "changes-before": 66, "locked": 73,
	"availability_zone": 83, "config_drive": 83, "key_name": 83, "created_at": 83, "launched_at": 83, "terminated_at": 83,
	"power_state": 83, "task_state": 83, "vm_state": 83, "progress": 83, "user_id": 83, "hostname": 90,
}

// serverFilters gives the filters of a list that count for its caller; the
// others are dropped. A filter given more than once counts the last time.
func serverFilters(r *Request) map[string]string {
	filters := map[string]string{}
	all := r.Allowed(ruleAllFilters)
	for name, values := range r.Query {
		since, known := filterSince[name]
		if len(values) == 0 || !all && (!known || r.Version < since) {
			continue
		}
		filters[name] = values[len(values)-1]
	}
	return filters
}

// byStatus filters by what users see of a server's states.
func (q *serverQuery) byStatus(r *Request, filters map[string]string) (none bool, err error) {
	wanted, asked := r.Query["status"]
	if !asked {
		return false, nil
	}
	var either []string
	statuses := make([]string, len(wanted))
	for i, status := range wanted {
		statuses[i] = strings.ToUpper(status)
	}
	slices.Sort(statuses)
	for _, status := range slices.Compact(statuses) { // each once, however often it is asked for (S11)
		for _, match := range compute.StatesOf(status) {
			if match.VM == compute.VMDeleted {
				if !r.IsAdmin() {
					return false, fault.Forbidden("Only administrators may list deleted instances")
				}
				filters["deleted"] = "true"
			}
			either = append(either, q.stateCondition(match))
		}
	}
	if len(either) == 0 && r.Version >= 38 {
		return false, fault.BadRequest("Invalid status value")
	}
	q.where = append(q.where, "("+strings.Join(either, " OR ")+")")
	return len(either) == 0, nil
}

func (q *serverQuery) stateCondition(match compute.StatusMatch) string {
	vm := "s.vm_state = " + q.arg(string(match.VM))
	tasks := make([]string, len(match.Tasks))
	for i, task := range match.Tasks {
		tasks[i] = string(task)
	}
	within := "s.task_state = ANY(" + q.arg(tasks) + "::text[])"
	if match.Default {
		within = "NOT " + within
	}
	return "(" + vm + " AND " + within + ")"
}

// byTime filters by when a server changed; such a list has deleted servers too.
func (q *serverQuery) byTime(filters map[string]string) error {
	since, err := timeFilter(filters, "changes-since")
	if err != nil {
		return err
	}
	before, err := timeFilter(filters, "changes-before")
	if err != nil {
		return err
	}
	// Answers show whole seconds: what they show of a server is compared.
	if since != nil {
		q.add(changedAt("s")+" >= ?", since.Add(time.Second-1).Truncate(time.Second))
	}
	if before != nil {
		q.add(changedAt("s")+" < ?", before.Truncate(time.Second).Add(time.Second))
	}
	if since != nil && before != nil && since.After(*before) {
		return fault.BadRequest("The value of changes-since must be less than or equal to changes-before.")
	}
	if text := filters["deleted"]; text != "" {
		deleted, err := compute.ParseBool(text)
		if err != nil {
			return err
		}
		q.add("(s.deleted_at IS NOT NULL) = ?", deleted)
	} else if since == nil && before == nil {
		q.add("s.deleted_at IS NULL")
	}
	return nil
}

func timeFilter(filters map[string]string, name string) (*time.Time, error) {
	text, asked := filters[name]
	if !asked {
		return nil, nil
	}
	at, err := validation.ParseTime(text)
	if err != nil {
		return nil, fault.BadRequest("Invalid %s value", name)
	}
	return &at, nil
}

// equal are the filters that must match exactly.
var equal = map[string]string{
	"uuid": "s.id::text", "project_id": "s.project_id", "tenant_id": "s.project_id", "user_id": "s.user_id",
	"launch_index": "s.launch_index::text", "image": "s.image_id::text", "image_ref": "s.image_id::text", "vm_state": "s.vm_state",
	"task_state": "s.task_state", "host": "h.name", "flavor": "s.flavor->>'id'", "power_state": "s.power_state::text",
	"progress": "s.progress::text", "auto_disk_config": "s.disk_config",
}

// like are the filters that are regular expressions.
var like = map[string]string{
	"name": "s.name", "display_name": "s.name", "description": "s.description", "display_description": "s.description",
	"hostname": "s.hostname", "key_name": "s.key_name", "reservation_id": "s.reservation_id", "node": "h.name",
	"availability_zone": "s.availability_zone", "locked_by": "s.locked_by", "access_ip_v4": "s.access_ip_v4",
	"access_ip_v6": "s.access_ip_v6", "root_device_name": rootDevice, "kernel_id": "''", "ramdisk_id": "''",
	"created_at": timeText("s.created_at"), "launched_at": timeText("s.launched_at"), "terminated_at": timeText("s.terminated_at"),
}

// rootDevice is the name of the root disk, as compute.DiskBus says.
const rootDevice = `CASE WHEN s.image ->> 'devices' = 'true' AND s.image #>> '{properties,hw_disk_bus}' IN ('scsi', 'sata') THEN '/dev/sda' ELSE '/dev/vda' END`

// addressed are the filters by address, which are regular expressions, too: one of the addresses that are shown of a server, fixed or floating,
// begins with what matches (K1).
var addressed = map[string]string{"ip": withAddress("NOT LIKE '%:%'"), "ip6": withAddress("LIKE '%:%'")}

func withAddress(like string) string {
	return `EXISTS (SELECT FROM jsonb_array_elements(s.networks) AS n(network), jsonb_array_elements(coalesce(network -> 'port' -> 'addresses', '[]')) AS a(entry),
		jsonb_array_elements_text(jsonb_build_array(entry -> 'ip_address') || coalesce(entry -> 'floating_ips', '[]')) AS shown(ip)
		WHERE network -> 'port' ->> 'id' IS NOT NULL AND shown.ip ` + like + ` AND shown.ip ~ ('^(' || chr(63) || ':' || ? || ')'))`
}

func timeText(column string) string {
	return "to_char(" + column + ` AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')`
}

// tagged are the filters by tags; a value is a list with commas.
var tagged = map[string]string{
	"tags": "s.tags @> ?::text[]", "tags-any": "s.tags && ?::text[]",
	"not-tags": "NOT s.tags @> ?::text[]", "not-tags-any": "NOT s.tags && ?::text[]",
}

// truth are the filters that are booleans.
var truth = map[string]string{"locked": "(s.locked_by IS NOT NULL) = ?", "config_drive": "s.config_drive = ?"}

// noFilters are what the schema of a list takes, as Nova's does, and no list is filtered by.
var noFilters = []string{"block_device_mapping", "info_cache", "metadata", "pci_devices", "security_groups", "services", "system_metadata"}

func (q *serverQuery) byField(filters map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(filters)) {
		value := filters[name]
		if slices.Contains(noFilters, name) || strings.HasPrefix(name, "_") {
			return fault.BadRequest("Invalid filter field: %s.", name)
		}
		if expression, ok := equal[name]; ok {
			q.add(expression+" = ?", value)
		}
		condition, ok := addressed[name]
		if expression, named := like[name]; named {
			condition, ok = expression+" ~ ?", true
		}
		if ok {
			if utf8.RuneCountInString(value) > maxExpression {
				return fault.BadRequest("The value of the filter %s is too long: at most %d characters.", name, maxExpression)
			}
			q.add(condition, value)
			q.expression = q.expression || strings.ContainsAny(value, `*+?{}()[]|\`) // else its time is bounded by its length
		}
		if condition, ok := tagged[name]; ok {
			q.add(condition, strings.Split(value, ","))
		}
		if condition, ok := truth[name]; ok {
			yes, err := compute.ParseBool(value)
			if err != nil {
				return err
			}
			q.add(condition, yes)
		}
	}
	return nil
}
