package legacy

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"strongroom/compute"
)

// ReadNova reads what the database of a cell of Nova says of the servers that have a key for all
// of their disks: of those of a host, or of all where host is "". Nothing is written to it. at is its URL
// with the password, which no error has, as [database]/connection of nova.conf says it. How the
// disks are encrypted is not in it. Invalid: a server is not shut down, or not described whole; or
// there is none. Unavailable: the database does not answer.
func ReadNova(ctx context.Context, at, host string) ([]Description, error) {
	db, err := openNova(at)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	rows, err := readRows(ctx, db)
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "Nova's database: %w", err)
	}
	var all []Description
	for _, row := range rows {
		if host != "" && row.host != host {
			continue
		}
		d, err := row.description()
		if err != nil {
			return nil, compute.Errorf(compute.Invalid, "server %s: %w", row.uuid, err)
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		return nil, compute.Errorf(compute.Invalid, "Nova's database has no server%s with an ephemeral_key_uuid", on(host))
	}
	return all, nil
}

func on(host string) string {
	if host == "" {
		return ""
	}
	return fmt.Sprintf(" on host %q", host)
}

// novaRow is what Nova has of a server.
type novaRow struct {
	uuid, project, user string
	host, name          string
	hostname, image     string
	key                 string
	state, task         string
	flavor, interfaces  string            // JSON, as Nova's objects are stored
	properties          map[string]string // of its image
}

// The servers, and the properties of their images: in words that both MySQL and PostgreSQL know.
const (
	novaServers = `SELECT i.uuid, coalesce(i.project_id, ''), coalesce(i.user_id, ''), coalesce(i.host, ''), coalesce(i.display_name, ''),
    coalesce(i.hostname, ''), coalesce(i.image_ref, ''), i.ephemeral_key_uuid, coalesce(i.vm_state, ''), coalesce(i.task_state, ''),
    coalesce(e.flavor, ''), coalesce(n.network_info, '')
FROM instances i LEFT JOIN instance_extra e ON e.instance_uuid = i.uuid AND e.deleted = 0
    LEFT JOIN instance_info_caches n ON n.instance_uuid = i.uuid AND n.deleted = 0
WHERE i.deleted = 0 AND i.ephemeral_key_uuid IS NOT NULL ORDER BY i.id`
	novaProperties = `SELECT m.instance_uuid, m.key, coalesce(m.value, '') FROM instance_system_metadata m JOIN instances i ON i.uuid = m.instance_uuid
WHERE m.deleted = 0 AND i.deleted = 0 AND i.ephemeral_key_uuid IS NOT NULL`
)

// propertyPrefix begins Nova's names of those properties of a server's image that say what its machine is
// like.
const propertyPrefix = "image_hw_"

func readRows(ctx context.Context, db *sql.DB) ([]*novaRow, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	var all []*novaRow
	byID := map[string]*novaRow{}
	err = each(ctx, tx, novaServers, func(scan func(...any) error) error {
		r := &novaRow{properties: map[string]string{}}
		all = append(all, r)
		err := scan(&r.uuid, &r.project, &r.user, &r.host, &r.name, &r.hostname, &r.image, &r.key, &r.state, &r.task, &r.flavor, &r.interfaces)
		byID[r.uuid] = r
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, each(ctx, tx, novaProperties, func(scan func(...any) error) error {
		var id, key, value string
		err := scan(&id, &key, &value)
		if r := byID[id]; r != nil && strings.HasPrefix(key, propertyPrefix) {
			r.properties[strings.TrimPrefix(key, "image_")] = value
		}
		return err
	})
}

func each(ctx context.Context, tx *sql.Tx, query string, do func(scan func(...any) error) error) error {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := do(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// novaFlavor is instance_extra.flavor.
type novaFlavor struct {
	Current struct {
		Data struct {
			ID          string            `json:"flavorid"`
			Name        string            `json:"name"`
			VCPUs       int               `json:"vcpus"`
			MemoryMB    int               `json:"memory_mb"`
			RootGB      int               `json:"root_gb"`
			EphemeralGB int               `json:"ephemeral_gb"`
			SwapMB      int               `json:"swap"`
			ExtraSpecs  map[string]string `json:"extra_specs"`
		} `json:"nova_object.data"`
	} `json:"cur"`
}

// novaInterface is one of instance_info_caches.network_info.
type novaInterface struct {
	Address string `json:"address"`
	Network struct {
		ID uuid.UUID `json:"id"`
	} `json:"network"`
}

// description is the row as an import's file would say it.
func (r *novaRow) description() (Description, error) {
	if r.state != string(compute.VMStopped) || r.task != "" {
		return Description{}, fmt.Errorf("it is %s in Nova: shut it down there first", strings.TrimSpace(r.state+" "+r.task))
	}
	if r.image == "" {
		return Description{}, fmt.Errorf("its root disk is a volume of the block storage")
	}
	d := Description{
		Host: r.host, ProjectID: r.project, UserID: r.user, Name: cmp.Or(r.name, r.uuid), Hostname: r.hostname,
		Image: image{Properties: r.properties},
	}
	for _, id := range []struct {
		column, text string
		to           *uuid.UUID
	}{{"uuid", r.uuid, &d.ID}, {"ephemeral_key_uuid", r.key, &d.Key}, {"image_ref", r.image, &d.Image.ID}} {
		if err := id.to.UnmarshalText([]byte(id.text)); err != nil {
			return d, fmt.Errorf("its %s is %q", id.column, id.text)
		}
	}
	var is novaFlavor
	if err := json.Unmarshal([]byte(r.flavor), &is); err != nil {
		return d, fmt.Errorf("its instance_extra.flavor cannot be read: %w", err)
	}
	d.Flavor = flavor(is.Current.Data)
	var interfaces []novaInterface
	if err := json.Unmarshal([]byte(cmp.Or(r.interfaces, "[]")), &interfaces); err != nil {
		return d, fmt.Errorf("its instance_info_caches.network_info cannot be read: %w", err)
	}
	for _, i := range interfaces {
		d.Networks = append(d.Networks, network{UUID: i.Network.ID, MAC: i.Address})
	}
	return d, nil
}
