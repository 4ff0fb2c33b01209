package volume

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"strongroom/api/fault"
	"strongroom/api/validation"
	"strongroom/schema"
)

// access says which projects see a private type.
func (a *API) access() []route {
	return []route{
		{method: http.MethodGet, path: "/types/:id/os-volume-type-access", rule: ruleListAccess, handle: a.listAccess},
		{method: http.MethodPost, path: "/types/:id/action", status: http.StatusAccepted, handle: a.act, actions: actions},
	}
}

// The actions of a type.
const (
	addAccess    = "addProjectAccess"
	removeAccess = "removeProjectAccess"
)

// action is what a body that names it must hold, and who may ask for it.
type action struct {
	rule string
	body validation.Versions
	do   func(change, context.Context, string) error
}

var actions = map[string]action{
	addAccess:    {ruleAddAccess, accessBody(addAccess), change.addAccess},
	removeAccess: {ruleRemoveAccess, accessBody(removeAccess), change.removeAccess},
}

func accessBody(name string) validation.Versions {
	return always(validation.Object([]string{name}, validation.Properties{
		name: validation.Object([]string{"project"}, validation.Properties{"project": validation.UUID}),
	}))
}

func (a *API) listAccess(r *request) (any, error) {
	t, err := r.get(r.reading())
	if err != nil {
		return nil, err
	}
	if t.IsPublic {
		return nil, fault.NotFound("Access list not available for public volume types.")
	}
	projects, err := a.db.VolumeTypeProjects(r.context(), t.ID)
	if err != nil {
		return nil, err
	}
	items := make([]map[string]string, len(projects))
	for i, project := range projects {
		items[i] = map[string]string{"volume_type_id": t.ID.String(), "project_id": project}
	}
	return map[string]any{"volume_type_access": items}, nil
}

// act carries out the one action that the body names.
func (a *API) act(r *request) (any, error) {
	object, _ := r.document.(map[string]any)
	if len(object) != 1 {
		return nil, fault.BadRequest("Malformed request body")
	}
	name := slices.Collect(maps.Keys(object))[0]
	chosen, ok := actions[name]
	if !ok {
		return nil, fault.BadRequest("There is no such action: %s. Verify the request body and Content-Type header and try again.", name)
	}
	if err := chosen.body.Body(r.document, r.version, false); err != nil {
		return nil, err
	}
	if err := r.enforce(chosen.rule); err != nil {
		return nil, err
	}
	var body map[string]struct {
		Project string `json:"project"`
	}
	if err := r.decode(&body); err != nil {
		return nil, err
	}
	return nil, r.change(func(ctx context.Context, c change) error {
		if c.target.IsPublic {
			return fault.BadRequest("Invalid volume type: Type access modification is not applicable to public volume type.")
		}
		return chosen.do(c, ctx, body[name].Project)
	})
}

// granted is the access of a project, as the record of changes shows it.
type granted struct {
	Project string `json:"project"`
}

func (c change) addAccess(ctx context.Context, project string) error {
	n, err := c.AddVolumeTypeAccess(ctx, schema.AddVolumeTypeAccessParams{VolumeTypeID: c.target.ID, ProjectID: project})
	if err != nil {
		return err
	}
	if n == 0 {
		return fault.Conflict("Volume type access for %s / %s combination already exists.", c.target.ID, project)
	}
	return c.record(ctx, accessAdded, nil, granted{project})
}

func (c change) removeAccess(ctx context.Context, project string) error {
	n, err := c.RemoveVolumeTypeAccess(ctx, schema.RemoveVolumeTypeAccessParams{VolumeTypeID: c.target.ID, ProjectID: project})
	if err != nil {
		return err
	}
	if n == 0 {
		return fault.NotFound("Volume type access not found for %s / %s combination.", c.target.ID, project)
	}
	return c.record(ctx, accessRemoved, granted{project}, nil)
}
