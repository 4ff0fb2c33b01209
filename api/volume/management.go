package volume

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"strongroom/api/fault"
	"strongroom/api/validation"
	"strongroom/schema"
)

// typeManagement makes, changes and removes types.
func (a *API) typeManagement() []route {
	return []route{
		{method: http.MethodPost, path: "/types", rule: ruleCreate, body: typeCreate, handle: a.createType},
		{method: http.MethodPut, path: "/types/:id", rule: ruleUpdate, body: typeUpdate, handle: a.updateType},
		{method: http.MethodDelete, path: "/types/:id", rule: ruleDelete, status: http.StatusAccepted, handle: a.deleteType},
	}
}

var (
	typeCreate = always(validation.Object([]string{"volume_type"}, validation.Properties{
		"volume_type": validation.Object([]string{"name"}, validation.Properties{
			"id":   validation.UUID, // an extension: createType refuses it where that is not spoken
			"name": nameSchema, "description": descriptionSchema,
			"os-volume-type-access:is_public": booleanSchema, "extra_specs": specsSchema(newTypeKeys),
		}),
	}))
	typeUpdate = always(validation.Object([]string{"volume_type"}, validation.Properties{
		"volume_type": validation.Object(nil, validation.Properties{
			"name":        {"type": []string{"string", "null"}, "minLength": 1, "maxLength": 255},
			"description": descriptionSchema, "is_public": booleanSchema,
		}),
	}))
)

// described is a type's own columns, as the record of changes shows them.
type described struct {
	Name        string  `json:"name"`
	Description *string `json:"description"`
	IsPublic    bool    `json:"is_public"`
}

func describe(t schema.VolumeType) described { return described{t.Name, t.Description, t.IsPublic} }

// wholeType is everything of a type.
type wholeType struct {
	described
	ExtraSpecs specs       `json:"extra_specs"`
	Projects   []string    `json:"projects,omitempty"`
	Encryption *encryption `json:"encryption,omitempty"`
}

func exists(name string) error { return fault.Conflict("Volume Type %s already exists.", name) }

var errExclusive = fault.BadRequest("cacheable cannot be set with multiattach.")

func (a *API) createType(r *request) (any, error) {
	var body struct {
		Type struct {
			ID          *uuid.UUID `json:"id"`
			Name        string     `json:"name"`
			Description *string    `json:"description"`
			IsPublic    *flag      `json:"os-volume-type-access:is_public"`
			ExtraSpecs  specs      `json:"extra_specs"`
		} `json:"volume_type"`
	}
	if err := r.decode(&body); err != nil {
		return nil, err
	}
	in := body.Type
	if in.ExtraSpecs.exclusive() {
		return nil, errExclusive
	}
	row := schema.InsertVolumeTypeParams{
		ID: r.id.Derive("volume type"), Name: in.Name, Description: in.Description, IsPublic: in.IsPublic == nil || bool(*in.IsPublic),
	}
	if in.ID != nil {
		if !r.extended {
			return nil, fault.BadRequest("Additional properties are not allowed ('id' was unexpected)")
		}
		row.ID = *in.ID
	}
	err := r.transact(func(ctx context.Context, c change) error {
		var err error
		if c.target, err = c.InsertVolumeType(ctx, row); err != nil {
			return err
		}
		if err := c.setSpecs(ctx, in.ExtraSpecs); err != nil {
			return err
		}
		return c.record(ctx, typeCreated, nil, wholeType{described: describe(c.target), ExtraSpecs: in.ExtraSpecs})
	})
	switch violated(err) {
	case "volume_types_name_key":
		return nil, exists(row.Name)
	case "volume_types_pkey":
		return nil, exists(row.ID.String())
	}
	if err != nil {
		return nil, err
	}
	return a.answerType(r, row.ID, true)
}

// answerType is the answer of a request that made or changed a type. It has fewer keys
// than a show.
func (a *API) answerType(r *request, id uuid.UUID, isNew bool) (any, error) {
	may := r.reading()
	may.everyones = true // whoever just wrote it may see what it is now
	may.isPublic = may.isPublic && isNew
	t, err := r.getByID(may, id)
	if err != nil {
		return nil, err
	}
	v := may.view(t)
	v.QosSpecsID = nil
	return map[string]view{"volume_type": v}, nil
}

func (c change) setSpecs(ctx context.Context, s specs) error {
	if len(s) == 0 {
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return c.SetVolumeTypeExtraSpecs(ctx, schema.SetVolumeTypeExtraSpecsParams{VolumeTypeID: c.target.ID, Specs: text})
}

func (a *API) updateType(r *request) (any, error) {
	var body struct {
		Type struct {
			Name        *string `json:"name"`
			Description *string `json:"description"`
			IsPublic    *flag   `json:"is_public"`
		} `json:"volume_type"`
	}
	if err := r.decode(&body); err != nil {
		return nil, err
	}
	in := body.Type
	if in.Name == nil && in.Description == nil && in.IsPublic == nil {
		return nil, fault.BadRequest("Specify volume type name, description, is_public or a combination thereof.")
	}
	if in.Name != nil && strings.TrimSpace(*in.Name) == "" {
		return nil, fault.BadRequest("Volume type name can not be empty.")
	}
	var id uuid.UUID
	err := r.change(func(ctx context.Context, c change) error {
		before := c.target
		row := schema.UpdateVolumeTypeParams{ID: before.ID, Name: before.Name, Description: before.Description, IsPublic: before.IsPublic}
		if in.Name != nil {
			row.Name = *in.Name
		}
		if in.Description != nil {
			row.Description = in.Description
		}
		if in.IsPublic != nil {
			row.IsPublic = bool(*in.IsPublic)
		}
		id = before.ID
		var err error
		if c.target, err = c.UpdateVolumeType(ctx, row); err != nil {
			return err
		}
		return c.record(ctx, typeUpdated, describe(before), describe(c.target))
	})
	if violated(err) == "volume_types_name_key" {
		return nil, exists(*in.Name)
	}
	if err != nil {
		return nil, err
	}
	return a.answerType(r, id, false)
}

// deleteType deletes a type, but not the default one and not the last: a volume
// must have a type to be of.
func (a *API) deleteType(r *request) (any, error) {
	return nil, r.change(func(ctx context.Context, c change) error {
		if c.target.Name == a.config.DefaultType {
			return fault.BadRequest("The volume type %s is a default volume type and cannot be deleted.", c.target.ID)
		}
		// Two deletes at once must not both find another type left.
		if err := c.LockVolumeTypes(ctx); err != nil {
			return err
		}
		n, err := c.CountVolumeTypes(ctx)
		if err != nil {
			return err
		}
		if n == 1 {
			return fault.BadRequest("The volume type %s is the only currently defined volume type and cannot be deleted.", c.target.ID)
		}
		before, err := c.whole(ctx)
		if err != nil {
			return err
		}
		if err := c.DeleteVolumeType(ctx, c.target.ID); err != nil {
			return err
		}
		return c.record(ctx, typeDeleted, before, nil)
	})
}

// whole gives everything of the target.
func (c change) whole(ctx context.Context) (wholeType, error) {
	all, err := c.extraSpecs(ctx)
	if err != nil {
		return wholeType{}, err
	}
	projects, err := c.VolumeTypeProjects(ctx, c.target.ID)
	if err != nil {
		return wholeType{}, err
	}
	crypt, err := c.encryption(ctx)
	return wholeType{describe(c.target), all, projects, crypt}, err
}
