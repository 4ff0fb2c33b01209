package volume

import (
	"encoding/json"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"strongroom/schema"
)

// VisibleExtraSpecs are the keys of extra specs that everybody may read who may
// read types: what tells kinds of volumes apart and says nothing of a back end.
// The list is a part of the API and no setting (VT-01).
var VisibleExtraSpecs = []string{zonesKey, "multiattach", "replication_enabled"}

const zonesKey = "RESKEY:availability_zones"

// reading is what a caller may read.
type reading struct {
	everyones bool // private types of every project, too
	allKeys   bool // every extra spec, not the visible ones alone
	specs     bool // extra specs in the view of a type
	isPublic  bool // os-volume-type-access:is_public in the view of a type
	projectID string
}

func (r *request) reading() reading {
	return reading{
		everyones: r.allowed(ruleIsAdmin), allKeys: r.allowed(ruleReadSensitive),
		specs: r.allowed(ruleShowSpecs), isPublic: r.allowed(ruleShowIsPublic), projectID: r.projectID(),
	}
}

// get finds a type that the caller may see, with the extra specs that the caller
// may read.
func (r *request) get(may reading) (schema.GetVolumeTypeRow, error) {
	id, err := r.typeID()
	if err != nil {
		return schema.GetVolumeTypeRow{}, err
	}
	return r.getByID(may, id)
}

func (r *request) getByID(may reading, id uuid.UUID) (schema.GetVolumeTypeRow, error) {
	row, err := r.api.db.GetVolumeType(r.context(), schema.GetVolumeTypeParams{
		ID: id, AllKeys: may.allKeys, VisibleKeys: VisibleExtraSpecs, Everyones: may.everyones, ProjectID: may.projectID,
	})
	return row, missing(err, id)
}

// missing makes the 404 of what a query did not find.
func missing(err error, id uuid.UUID) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return notFound(id.String())
	}
	return err
}

// view is a type as the API shows it (VT-09). There are no QoS specs here:
// qos_specs_id is null for everybody, in shows and lists.
type view struct {
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Description  *string         `json:"description"`
	IsPublic     bool            `json:"is_public"`
	AccessPublic *bool           `json:"os-volume-type-access:is_public,omitempty"`
	QosSpecsID   json.RawMessage `json:"qos_specs_id,omitempty"`
	ExtraSpecs   json.RawMessage `json:"extra_specs,omitempty"`
}

func (may reading) view(t schema.GetVolumeTypeRow) view {
	v := view{
		ID: t.ID.String(), Name: t.Name, Description: t.Description, IsPublic: t.IsPublic, QosSpecsID: json.RawMessage("null"),
	}
	if may.isPublic {
		v.AccessPublic = &t.IsPublic
	}
	if may.specs {
		v.ExtraSpecs = t.ExtraSpecs
	}
	return v
}

func (may reading) answer(t schema.GetVolumeTypeRow) map[string]view {
	return map[string]view{"volume_type": may.view(t)}
}
