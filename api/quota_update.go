package api

import (
	"encoding/json"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

// quotaQuery is that of a project's quotas, read or written.
var quotaQuery = validation.Since(func(v microversion.Version) validation.Schema {
	p := validation.Properties{"user_id": validation.Repeated(validation.Text)}
	if v >= 75 {
		return validation.Object(nil, p)
	}
	return validation.Open(p)
}, microversion.Min, 75)

var quotaBody = validation.Since(func(v microversion.Version) validation.Schema {
	limit := validation.Schema{"type": []string{"integer", "string"}, "pattern": "^-?[0-9]+$", "minimum": compute.Unlimited, "maximum": validation.MaxInt}
	p := validation.Properties{"force": validation.BooleanOrText}
	for _, name := range quotaNames(v) {
		p[name] = limit
	}
	if v < 36 {
		p["networks"] = limit // refused with a reason
	}
	return validation.Object([]string{"quota_set"}, validation.Properties{"quota_set": validation.Object(nil, p)})
}, microversion.Min, 36, 57)

// updateQuotas writes limits of a project. What strongroom does not count is kept and shown as well, as Nova keeps the
// quotas of networks: clients compare what they read with what they wrote.
func (a *API) updateQuotas(r *Request) (any, error) {
	project := r.Param("id")
	if err := a.mayWriteQuotas(r, ruleUpdateQuotas); err != nil {
		return nil, err
	}
	if err := a.knownProject(r, project); err != nil {
		return nil, err
	}
	limits, force, err := readQuotas(r)
	if err != nil {
		return nil, err
	}
	use, err := a.shownUse(r.Context(), project)
	if err != nil {
		return nil, err
	}
	set := schema.SetProjectQuotasParams{ProjectID: project}
	for _, name := range quotaNames(r.Version) { // in one order, so that no two requests wait for each other
		most, asked := limits[name]
		if !asked {
			continue
		}
		if used := usedOf(name, use); !force && most >= 0 && most < used {
			return nil, fault.BadRequest("Quota limit %d for %s must be greater than or equal to already used and reserved %d.", most, name, used)
		}
		set.Resources, set.Limits = append(set.Resources, name), append(set.Limits, most)
	}
	if err := a.db.SetProjectQuotas(r.Context(), set); err != nil {
		return nil, err
	}
	quota, err := a.quotaOf(r.Context(), project)
	return map[string]any{"quota_set": quotaSet(quotaNames(r.Version), quota)}, err
}

// mayWriteQuotas refuses who may not do so in that project, and where the quotas are Keystone's. Nova with Keystone's limits takes such a request and changes nothing; it is better to say so.
func (a *API) mayWriteQuotas(r *Request, rule string) error {
	if err := r.EnforceOn(rule, r.Param("id"), r.UserID()); err != nil {
		return err
	}
	if a.config.Quotas.AreElsewhere() {
		return fault.Forbidden(quotasElsewhere)
	}
	if r.Query.Get("user_id") != "" {
		return fault.BadRequest("There are no quotas of single users: without user_id the quota of the project is changed.")
	}
	return nil
}

func readQuotas(r *Request) (limits map[string]int64, force bool, err error) {
	var body struct {
		Set map[string]json.RawMessage `json:"quota_set"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, false, err
	}
	limits = map[string]int64{}
	for name, text := range body.Set {
		var yes validation.Boolean
		var most validation.Integer
		switch name {
		case "networks":
			return nil, false, fault.BadRequest("The networks quota has been removed")
		case "force":
			err = json.Unmarshal(text, &yes)
			force = bool(yes)
		default:
			err = json.Unmarshal(text, &most)
			limits[name] = int64(most)
		}
		if err != nil {
			return nil, false, fault.BadRequest("Malformed request body")
		}
	}
	return limits, force, nil
}

// deleteQuotas gives a project the quota of all again. A project that Keystone does not know any more may have one, too.
func (a *API) deleteQuotas(r *Request) (any, error) {
	if err := a.mayWriteQuotas(r, ruleDeleteQuotas); err != nil {
		return nil, err
	}
	return nil, a.db.DeleteProjectQuotas(r.Context(), r.Param("id"))
}
