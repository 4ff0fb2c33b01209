package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumetypes"
)

type volumeTypeCommand struct {
	List    volumeTypeList    `cmd:"" help:"List volume types with the extra specs that you may read."`
	Show    volumeTypeShow    `cmd:"" help:"Show a volume type; to administrators also who sees it and how it encrypts."`
	Create  volumeTypeCreate  `cmd:"" help:"Make a volume type."`
	Set     volumeTypeSet     `cmd:"" help:"Change a volume type, its extra specs, access or encryption."`
	Unset   volumeTypeUnset   `cmd:"" help:"Take extra specs, access or encryption off a volume type."`
	Delete  volumeTypeDelete  `cmd:"" help:"Delete volume types."`
	History volumeTypeHistory `cmd:"" help:"Show who changed what of a volume type."`
	Import  volumeTypeImport  `cmd:"" help:"Copy the volume types of another cloud, such as those of a Cinder."`
}

// Help is shown by --help.
func (volumeTypeCommand) Help() string {
	return `A volume type says what kind of volumes there are. Its extra specs are keys and
values; everybody who reads types sees three of them, and administrators see all:

  multiattach                "<is> True": a volume can be attached to several servers
  RESKEY:availability_zones  the zones in which volumes can be, as "az1,az2"
  replication_enabled        "<is> True": volumes are replicated

For example:

  strongroom volume-type create shared --property 'multiattach=<is> True' \
    --property volume_backend_name=pool1 --encryption-provider luks
  strongroom volume-type list --property 'multiattach=<is> True'
  strongroom volume-type import --from old-cloud --dry-run`
}

type volumeTypeList struct {
	cloud
	output
	long
	Property map[string]string `mapsep:"none" help:"Only types with this extra spec, key=value; repeatable. RESKEY:availability_zones matches by a part of its text."`
	Private  bool              `help:"Only private types (for administrators)."`
}

func (c volumeTypeList) Run(r *run) error {
	client, err := c.volumes(r)
	if err != nil {
		return err
	}
	opts := volumeTypeFilter{properties: c.Property}
	if c.Private {
		opts.IsPublic = volumetypes.VisibilityPrivate
	}
	list, err := listVolumeTypes(r, client, opts)
	if err != nil {
		return err
	}
	return c.print(list, func(w *sheet) {
		if c.Long {
			w.header("ID", "NAME", "PUBLIC", "PROPERTIES", "DESCRIPTION")
		} else {
			w.header("ID", "NAME", "PUBLIC", "PROPERTIES")
		}
		for _, t := range list {
			cells := []any{t.ID, t.Name, yesNo(t.IsPublic), t.ExtraSpecs}
			if c.Long {
				cells = append(cells, text(t.Description))
			}
			w.row(cells...)
		}
	})
}

// volumeTypeFilter asks a list for extra specs, too.
type volumeTypeFilter struct {
	volumetypes.ListOpts
	properties map[string]string
}

// ToVolumeTypeListQuery builds the request's query.
func (f volumeTypeFilter) ToVolumeTypeListQuery() (string, error) {
	query, err := f.ListOpts.ToVolumeTypeListQuery()
	if err != nil || len(f.properties) == 0 {
		return query, err
	}
	specs, err := json.Marshal(f.properties)
	return query + "&extra_specs=" + url.QueryEscape(string(specs)), err
}

type volumeTypeShow struct {
	cloud
	output
	Type string `arg:"" help:"Volume type, by id or name."`
}

func (c volumeTypeShow) Run(r *run) error {
	client, t, err := c.volumeType(r, c.Type)
	if err != nil {
		return err
	}
	if err := t.complete(r, client); err != nil && !forbidden(err) {
		return explain(err)
	}
	return c.print(t, t.table)
}

func (t volumeType) table(w *sheet) {
	w.row("id", t.ID)
	w.row("name", t.Name)
	if t.Description != nil {
		w.row("description", *t.Description)
	}
	w.row("public", yesNo(t.IsPublic))
	for _, key := range slices.Sorted(maps.Keys(t.ExtraSpecs)) {
		w.row("property "+key, text(t.ExtraSpecs[key]))
	}
	for _, project := range t.Projects {
		w.row("project", project)
	}
	if t.Encryption != nil {
		w.row("encryption", t.Encryption)
	}
}

type volumeTypeDelete struct {
	cloud
	Types []string `arg:"" name:"type" help:"Volume types, by id or name."`
}

func (c volumeTypeDelete) Run(r *run) error {
	client, err := c.volumes(r)
	if err != nil {
		return err
	}
	b := newBatch("volume type", c.Types)
	b.each(c.Types, func(name string) error {
		t, err := findVolumeType(r, client, name)
		if err != nil {
			return err
		}
		return explain(volumetypes.Delete(r, client, t.ID).ExtractErr())
	})
	return b.err()
}

type volumeTypeHistory struct {
	cloud
	output
	Type string `arg:"" help:"Volume type, by id or name; one that was deleted by its id."`
}

// Help is shown by --help.
func (volumeTypeHistory) Help() string {
	return `Every change is on record: when, which user of which project, the request's id,
what was and what is. Only administrators may read it; only strongroom has it.`
}

type volumeTypeChange struct {
	Action    string          `json:"action"`
	Name      string          `json:"name"`
	Before    json.RawMessage `json:"before"`
	After     json.RawMessage `json:"after"`
	RequestID string          `json:"request_id"`
	UserID    string          `json:"user_id"`
	ProjectID string          `json:"project_id"`
	MadeAt    time.Time       `json:"made_at"`
}

func (c volumeTypeHistory) Run(r *run) error {
	client, err := c.volumes(r)
	if err != nil {
		return err
	}
	id := c.Type
	if !isUUID(id) {
		t, err := findVolumeType(r, client, id)
		if err != nil {
			return err
		}
		id = t.ID
	}
	var body struct {
		Changes []volumeTypeChange `json:"changes"`
	}
	resp, err := extended(client).Get(r, client.ServiceURL("types", id, "changes"), &body, nil)
	if err != nil {
		return explain(err)
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	return c.print(body.Changes, func(w *sheet) {
		w.header("WHEN", "WHAT", "USER", "REQUEST", "BEFORE", "AFTER")
		for _, change := range body.Changes {
			w.row(change.MadeAt.Format(time.RFC3339), change.Action, change.UserID, change.RequestID, string(change.Before), string(change.After))
		}
	})
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// text shows a value that may be null.
func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

// String shows extra specs in one line.
func (s volumeSpecs) String() string {
	var items []string
	for _, key := range slices.Sorted(maps.Keys(s)) {
		items = append(items, fmt.Sprintf("%s='%s'", key, text(s[key])))
	}
	return strings.Join(items, ", ")
}
