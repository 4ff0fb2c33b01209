package api

import (
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const ruleRotateKeys = "strongroom:servers:rotate_keys"

var rotateKeysBody = validation.Always(validation.Object([]string{"rotateKeys"}, validation.Properties{
	"rotateKeys": {
		"type": []any{"object", "null"}, "additionalProperties": false,
		"properties": map[string]any{
			"disks": map[string]any{"type": "array", "minItems": 1, "items": map[string]any{"type": "string"}},
		},
	},
}))

func (a *API) rotateKeysAction() Resource {
	route := actionRoute("rotateKeys", rotateKeysBody, a.rotateKeys)
	route.Own = true
	return Resource{Rules: policy.Rules{ruleRotateKeys: policy.ProjectMemberOrAdmin}, Routes: []Route{route}}
}

// rotateKeys gives a server's encrypted disks new passphrases.
func (a *API) rotateKeys(r *Request) (any, error) {
	var body struct{ RotateKeys compute.RotateArguments }
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	return a.act(r, action{
		Facts: compute.RotateKeys.Facts, rule: ruleRotateKeys, arguments: body.RotateKeys,
		check: func(row serverRow) error { return a.checkRotation(r, row.Server, body.RotateKeys) },
	})
}

// checkRotation refuses at once what the operation would fail for.
func (a *API) checkRotation(r *Request, row schema.Server, in compute.RotateArguments) error {
	s, err := a.withDisks(r, row)
	if err != nil {
		return err
	}
	if _, err := s.DisksToRotate(in.Disks); err != nil {
		return err
	}
	if err := s.CheckRotator(r.Credential()); err != nil {
		return err
	}
	owner := s.Keyring(r.Credential()).Disks
	if owner == s.Delegated() {
		return nil // the trust is the workers' to use
	}
	return refusal(a.config.Keys.Check(r.Context(), owner),
		mayNotStore+"New keys need that.",
		"The key manager is not available: keys cannot be rotated now.")
}
