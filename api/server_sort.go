package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"strongroom/api/fault"
)

// serverQuery is the SQL of one page of a list of servers. Only expressions of
// this package become part of its text; what clients say becomes its arguments.
type serverQuery struct {
	where      []string
	args       []any
	keys       []sortKey
	marker     *uuid.UUID
	expression bool // a client's regular expression is among the conditions
}

type sortKey struct {
	expression string // with @ for the row
	descending bool
}

// arg adds an argument and gives its placeholder.
func (q *serverQuery) arg(value any) string {
	q.args = append(q.args, value)
	return fmt.Sprintf("$%d", len(q.args))
}

// add adds a condition; each ? in it stands for one of the values.
func (q *serverQuery) add(condition string, values ...any) {
	for _, value := range values {
		condition = strings.Replace(condition, "?", q.arg(value), 1)
	}
	q.where = append(q.where, condition)
}

func changedAt(row string) string {
	return fmt.Sprintf("coalesce(%s.updated_at, %s.created_at)", row, row)
}

// sortable are the keys that a list can be sorted by. No expression is ever
// NULL, so that a page has one place to begin at.
var sortable = map[string]string{
	"access_ip_v4": "@.access_ip_v4", "access_ip_v6": "@.access_ip_v6", "auto_disk_config": "@.disk_config",
	"availability_zone": "@.availability_zone", "config_drive": "@.config_drive", "created_at": "@.created_at",
	"display_description": "coalesce(@.description, '')", "display_name": "@.name", "host": hostNameOf, "hostname": "@.hostname",
	"image_ref": "coalesce(@.image_id::text, '')", "instance_type_id": "coalesce(@.flavor->>'id', '')", "kernel_id": alike,
	"key_name": "coalesce(@.key_name, '')", "launch_index": "@.launch_index",
	"launched_at": "coalesce(@.launched_at, '-infinity')", "locked": "(@.locked_by IS NOT NULL)",
	"locked_by": "coalesce(@.locked_by, '')", "node": hostNameOf, "power_state": "@.power_state", "progress": "@.progress",
	"project_id": "@.project_id", "ramdisk_id": alike, "root_device_name": rootDeviceOf, "task_state": "@.task_state",
	"terminated_at": "coalesce(@.terminated_at, '-infinity')", "updated_at": "coalesce(@.updated_at, @.created_at)",
	"user_id": "@.user_id", "uuid": "@.id", "vm_state": "@.vm_state",
}

// alike is of a key that is the same of all servers. PostgreSQL takes no plain constant to
// sort by.
const alike = "''::text"

var rootDeviceOf = strings.ReplaceAll(rootDevice, "s.", "@.")

const hostNameOf = "coalesce((SELECT name FROM hosts WHERE id = @.host_id), '')"

// order reads sort_key and sort_dir: without them, the newest come first. Keys
// that the schema lets pass and that are not here have never meant anything; one that is
// named again changes no order, and is left out.
func (q *serverQuery) order(r *Request) error {
	keys, directions := r.Query["sort_key"], r.Query["sort_dir"]
	if len(keys) == 0 {
		keys = []string{"created_at"}
	}
	if len(directions) > len(keys) {
		return fault.BadRequest("Sort direction size exceeds sort key size")
	}
	for i, key := range keys {
		descending := true
		if i < len(directions) {
			switch strings.ToLower(directions[i]) {
			case "asc":
				descending = false
			case "desc":
			default:
				return fault.BadRequest("Unknown sort direction, must be one of: asc, desc")
			}
		}
		expression, ok := sortable[key]
		again := slices.ContainsFunc(q.keys, func(k sortKey) bool { return k.expression == expression })
		if ok && !again && (key != "locked" || r.Version >= 73) {
			q.keys = append(q.keys, sortKey{expression, descending})
		}
	}
	last := len(q.keys) == 0 || q.keys[0].descending
	q.keys = append(q.keys, sortKey{"@.number", last}) // no two are alike
	return nil
}

// statement is the query for what is on a page.
func (q *serverQuery) statement(limit int) (string, []any) {
	where := q.where
	if q.marker != nil {
		where = append(where, q.behindMarker(q.arg(*q.marker)))
	}
	order := make([]string, len(q.keys))
	for i, k := range q.keys {
		order[i] = k.of("s") + " ASC"
		if k.descending {
			order[i] = k.of("s") + " DESC"
		}
	}
	return fmt.Sprintf("SELECT s.id, s.name FROM servers s LEFT JOIN hosts h ON h.id = s.host_id WHERE %s ORDER BY %s LIMIT %s",
		strings.Join(where, " AND "), strings.Join(order, ", "), q.arg(limit)), q.args
}

// behindMarker is the condition that a row comes after the marker's in order. Where all keys
// go one way it is one comparison of rows, at which an index can begin to read.
func (q *serverQuery) behindMarker(marker string) string {
	rows, markers := make([]string, len(q.keys)), make([]string, len(q.keys))
	for i, k := range q.keys {
		rows[i], markers[i] = k.of("s"), "(SELECT "+k.of("m")+" FROM servers m WHERE m.id = "+marker+")"
	}
	if oneWay := !slices.ContainsFunc(q.keys, func(k sortKey) bool { return k.descending != q.keys[0].descending }); oneWay {
		return "(" + strings.Join(rows, ", ") + ")" + q.keys[0].sign() + "(" + strings.Join(markers, ", ") + ")"
	}
	var either []string
	for i, k := range q.keys {
		var all []string
		for before := range i {
			all = append(all, rows[before]+" = "+markers[before])
		}
		either = append(either, strings.Join(append(all, rows[i]+k.sign()+markers[i]), " AND "))
	}
	return "(" + strings.Join(either, " OR ") + ")"
}

// sign is how what comes after compares with what comes before.
func (k sortKey) sign() string {
	if k.descending {
		return " < "
	}
	return " > "
}

func (k sortKey) of(row string) string { return strings.ReplaceAll(k.expression, "@", row) }
