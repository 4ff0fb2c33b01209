package volume

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"

	"strongroom/api/fault"
	"strongroom/api/validation"
	"strongroom/schema"
)

// extraSpecs are the key=value pairs of a type.
func (a *API) extraSpecs() []route {
	const path = "/types/:id/extra_specs"
	all := []string{ruleReadSensitive} // whoever writes them reads them all
	return []route{
		{method: http.MethodGet, path: path, rule: ruleListSpecs, handle: a.listSpecs},
		{method: http.MethodPost, path: path, rule: ruleCreateSpecs, also: all, body: specsCreate, handle: a.createSpecs},
		{method: http.MethodGet, path: path + "/:key", rule: ruleShowSpec, handle: a.showSpec},
		{method: http.MethodPut, path: path + "/:key", rule: ruleUpdateSpec, also: all, body: specUpdate, handle: a.updateSpec},
		{method: http.MethodDelete, path: path + "/:key", rule: ruleDeleteSpec, also: all, status: http.StatusAccepted, handle: a.deleteSpec},
	}
}

var (
	specsCreate = always(validation.Object([]string{"extra_specs"}, validation.Properties{"extra_specs": specsSchema(pathKeys)}))
	specUpdate  = always(func() validation.Schema {
		s := specsSchema(pathKeys)
		s["minProperties"], s["maxProperties"] = 1, 1
		return s
	}())
)

func (a *API) listSpecs(r *request) (any, error) {
	t, err := r.get(r.reading())
	if err != nil {
		return nil, err
	}
	return map[string]json.RawMessage{"extra_specs": t.ExtraSpecs}, nil
}

// showSpec looks a key up among those that the caller may read. The answer for a
// key that is not among them is made in one place and in one way (VT-05).
func (a *API) showSpec(r *request) (any, error) {
	t, err := r.get(r.reading())
	if err != nil {
		return nil, err
	}
	var readable specs
	if err := json.Unmarshal(t.ExtraSpecs, &readable); err != nil {
		return nil, err
	}
	key := r.param("key")
	value, ok := readable[key]
	if !ok {
		return nil, noSpec(t.ID.String(), key)
	}
	return specs{key: value}, nil
}

func noSpec(id, key string) *fault.Fault {
	return fault.NotFound("Volume Type %s has no extra specs with key %s.", id, key)
}

func (a *API) createSpecs(r *request) (any, error) {
	var body struct {
		Specs specs `json:"extra_specs"`
	}
	if err := r.decode(&body); err != nil {
		return nil, err
	}
	if err := r.writeSpecs(specsCreated, body.Specs); err != nil {
		return nil, err
	}
	return map[string]specs{"extra_specs": body.Specs}, nil
}

func (a *API) updateSpec(r *request) (any, error) {
	var body specs
	if err := r.decode(&body); err != nil {
		return nil, err
	}
	if _, ok := body[r.param("key")]; !ok {
		return nil, fault.BadRequest("Request body and URI mismatch")
	}
	if err := r.writeSpecs(specUpdated, body); err != nil {
		return nil, err
	}
	return body, nil
}

// writeSpecs sets extra specs. Whoever writes them must be allowed to read them
// all: that a write is refused tells of keys that stand in its way.
func (r *request) writeSpecs(action string, written specs) error {
	if err := r.enforce(ruleReadSensitive); err != nil {
		return err
	}
	return r.change(func(ctx context.Context, c change) error {
		all, err := c.extraSpecs(ctx)
		if err != nil {
			return err
		}
		before, after := all.touched(written), maps.Clone(all)
		maps.Copy(after, written)
		if after.exclusive() && (written.true("multiattach") || written.true("cacheable")) {
			return errExclusive
		}
		if maps.EqualFunc(before, written, same) {
			return nil // nothing changes, and nothing is told of
		}
		if err := c.setSpecs(ctx, written); err != nil {
			return err
		}
		return c.record(ctx, action, before, written)
	})
}

// touched gives those of the specs whose keys are written.
func (s specs) touched(written specs) specs {
	old := specs{}
	for key := range written {
		if value, ok := s[key]; ok {
			old[key] = value
		}
	}
	return old
}

func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

func (a *API) deleteSpec(r *request) (any, error) {
	if err := r.enforce(ruleReadSensitive); err != nil {
		return nil, err
	}
	key := r.param("key")
	return nil, r.change(func(ctx context.Context, c change) error {
		all, err := c.extraSpecs(ctx)
		if err != nil {
			return err
		}
		n, err := c.DeleteVolumeTypeExtraSpec(ctx, schema.DeleteVolumeTypeExtraSpecParams{VolumeTypeID: c.target.ID, Key: key})
		if err != nil {
			return err
		}
		if n == 0 {
			return noSpec(c.target.ID.String(), key)
		}
		return c.record(ctx, specDeleted, all.touched(specs{key: nil}), nil)
	})
}
