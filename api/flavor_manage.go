package api

import (
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/schema"
)

// flavorManage makes, describes and removes flavors.
func (a *API) flavorManage() Resource {
	const (
		create = "os_compute_api:os-flavor-manage:create"
		update = "os_compute_api:os-flavor-manage:update"
		remove = "os_compute_api:os-flavor-manage:delete"
	)
	return Resource{
		Rules: policy.Rules{create: policy.Admin, update: policy.Admin, remove: policy.Admin},
		Routes: []Route{
			{Method: http.MethodPost, Path: "/flavors", Rule: create, Body: flavorCreate, Handle: a.createFlavor},
			{Method: http.MethodPut, Path: "/flavors/:id", Min: 55, Rule: update, Body: flavorUpdate, Handle: a.updateFlavor},
			{Method: http.MethodDelete, Path: "/flavors/:id", Rule: remove, Status: http.StatusAccepted, Handle: a.deleteFlavor},
		},
	}
}

var flavorCreate = validation.Since(func(v microversion.Version) validation.Schema {
	p := validation.Properties{
		"name": validation.Name,
		"id": {
			"type": []string{"string", "number", "null"}, "minLength": 1, "maxLength": 255, "pattern": "^(?! )[a-zA-Z0-9. _-]+(?<! )$",
		},
		"ram": validation.WholeNumber(1), "vcpus": validation.WholeNumber(1), "disk": validation.WholeNumber(0), "OS-FLV-EXT-DATA:ephemeral": validation.WholeNumber(0), "swap": validation.WholeNumber(0),
		"rxtx_factor": {
			"type": []string{"number", "string"}, "pattern": `^[0-9]+(\.[0-9]+)?$`, "minimum": 0, "exclusiveMinimum": true, "maximum": 3.40282e+38,
		},
		"os-flavor-access:is_public": validation.BooleanOrText,
	}
	if v >= 55 {
		p["description"] = validation.Description
	}
	return validation.Object([]string{"flavor"}, validation.Properties{
		"flavor": validation.Object([]string{"name", "ram", "vcpus", "disk"}, p),
	})
}, 1, 55)

var flavorUpdate = validation.Always(validation.Object([]string{"flavor"}, validation.Properties{
	"flavor": validation.Object([]string{"description"}, validation.Properties{"description": validation.Description}),
}))

func (a *API) createFlavor(r *Request) (any, error) {
	var body struct {
		Flavor struct {
			Name        string                   `json:"name"`
			ID          *validation.TextOrNumber `json:"id"`
			RAM         validation.Integer       `json:"ram"`
			VCPUs       validation.Integer       `json:"vcpus"`
			Disk        validation.Integer       `json:"disk"`
			Ephemeral   validation.Integer       `json:"OS-FLV-EXT-DATA:ephemeral"`
			Swap        validation.Integer       `json:"swap"`
			RxtxFactor  *validation.Number       `json:"rxtx_factor"`
			IsPublic    *validation.Boolean      `json:"os-flavor-access:is_public"`
			Description *string                  `json:"description"`
		} `json:"flavor"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	in := body.Flavor
	row := schema.InsertFlavorParams{
		ID: uuid.NewString(), Name: strings.TrimSpace(in.Name), VCPUs: int32(in.VCPUs), MemoryMB: int32(in.RAM), RootGB: int32(in.Disk),
		EphemeralGB: int32(in.Ephemeral), SwapMB: int32(in.Swap), RxtxFactor: 1, IsPublic: true, Description: in.Description,
	}
	if in.ID != nil {
		row.ID = string(*in.ID)
	}
	if in.RxtxFactor != nil {
		row.RxtxFactor = float64(*in.RxtxFactor)
	}
	if in.IsPublic != nil {
		row.IsPublic = bool(*in.IsPublic)
	}
	f, err := a.db.InsertFlavor(r.Context(), row)
	switch violated(err) {
	case "flavors_id_key":
		return nil, fault.Conflict("Flavor with ID %s already exists.", row.ID)
	case "flavors_name_key":
		return nil, fault.Conflict("Flavor with name %s already exists.", row.Name)
	}
	if err != nil {
		return nil, err
	}
	return a.answerFlavor(r, f)
}

// violated names the constraint that a statement broke, or "".
func violated(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.ConstraintName
	}
	return ""
}

func (a *API) updateFlavor(r *Request) (any, error) {
	var body struct {
		Flavor struct {
			Description *string `json:"description"`
		} `json:"flavor"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	id := r.Param("id")
	f, err := a.db.DescribeFlavor(r.Context(), schema.DescribeFlavorParams{ID: id, Description: body.Flavor.Description})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, noFlavor(id)
	}
	if err != nil {
		return nil, err
	}
	return a.answerFlavor(r, f)
}

func (a *API) deleteFlavor(r *Request) (any, error) {
	id := r.Param("id")
	n, err := a.db.DeleteFlavor(r.Context(), id)
	if err == nil && n == 0 {
		return nil, noFlavor(id)
	}
	return nil, err
}
