package api

import (
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/schema"
)

const ruleKeypairs = "os_compute_api:os-keypairs:"

// keypairs are the public keys of users. Each user has their own; from 2.10 on
// an administrator may name another.
func (a *API) keypairs() Resource {
	const (
		list   = ruleKeypairs + "index"
		show   = ruleKeypairs + "show"
		create = ruleKeypairs + "create"
		remove = ruleKeypairs + "delete"
		path   = "/os-keypairs"
		one    = path + "/:name"
	)
	return Resource{
		Rules: policy.Rules{list: policy.UserOrAdmin, show: policy.UserOrAdmin, create: policy.UserOrAdmin, remove: policy.UserOrAdmin},
		Routes: []Route{
			{Method: http.MethodGet, Path: path, Query: keypairListQuery, Handle: a.listKeypairs},
			{Method: http.MethodGet, Path: one, Query: keypairQuery, Handle: a.showKeypair},
			{Method: http.MethodPost, Path: path, Max: 1, Body: keypairCreate, Handle: a.createKeypair},
			{Method: http.MethodPost, Path: path, Min: 2, Body: keypairCreate, Status: http.StatusCreated, Handle: a.createKeypair},
			{Method: http.MethodDelete, Path: one, Max: 1, Status: http.StatusAccepted, Handle: a.deleteKeypair},
			{Method: http.MethodDelete, Path: one, Min: 2, Query: keypairQuery, Status: http.StatusNoContent, Handle: a.deleteKeypair},
		},
	}
}

var keypairQuery = validation.Since(func(v microversion.Version) validation.Schema {
	p := validation.Properties{}
	if v >= 10 {
		p["user_id"] = validation.Repeated(validation.Text)
	}
	if v >= 75 {
		return validation.Object(nil, p)
	}
	return validation.Open(p)
}, 1, 10, 75)

var keypairListQuery = validation.Since(func(v microversion.Version) validation.Schema {
	p := validation.Properties{}
	if v >= 10 {
		p["user_id"] = validation.Repeated(validation.Text)
	}
	if v >= 35 {
		p["limit"], p["marker"] = validation.Repeated(validation.NonNegative), validation.Repeated(validation.Text)
	}
	if v >= 75 {
		return validation.Object(nil, p)
	}
	return validation.Open(p)
}, 1, 10, 35, 75)

// keypairUser is whose keypairs a request is about: the caller's own, unless it
// may name another user.
func keypairUser(r *Request, rule, named string) (string, error) {
	user := r.UserID()
	if r.Version >= 10 && named != "" {
		user = named
	}
	return user, r.EnforceOn(ruleKeypairs+rule, r.ProjectID(), user)
}

func (a *API) listKeypairs(r *Request) (any, error) {
	user, err := keypairUser(r, "index", r.Query.Get("user_id"))
	if err != nil {
		return nil, err
	}
	page := schema.ListKeypairsParams{UserID: user, Page: MaxLimit}
	if r.Version >= 35 {
		page.Page = int32(r.Limit())
		if marker := r.Marker(); marker != "" {
			if _, err := a.keypair(r, user, marker); err != nil {
				return nil, fault.BadRequest("marker [%s] not found", marker)
			}
			page.Marker = &marker
		}
	}
	rows, err := a.db.ListKeypairs(r.Context(), page)
	if err != nil {
		return nil, err
	}
	items := make([]map[string]any, len(rows))
	for i, k := range rows {
		items[i] = map[string]any{"keypair": viewKeypair(r, k)}
	}
	var next []Link
	if r.Version >= 35 && len(rows) > 0 {
		next = r.Next("os-keypairs", len(rows), rows[len(rows)-1].Name)
	}
	return Collection("keypairs", items, next), nil
}

func (a *API) showKeypair(r *Request) (any, error) {
	user, err := keypairUser(r, "show", r.Query.Get("user_id"))
	if err != nil {
		return nil, err
	}
	k, err := a.keypair(r, user, r.Param("name"))
	if err != nil {
		return nil, err
	}
	view := viewKeypair(r, k)
	view["id"], view["user_id"] = k.Number, k.UserID
	view["created_at"], view["updated_at"] = microseconds(&k.CreatedAt), nil
	view["deleted"], view["deleted_at"] = false, nil
	return map[string]any{"keypair": view}, nil
}

// keypair finds a keypair of a user.
func (a *API) keypair(r *Request, user, name string) (schema.Keypair, error) {
	k, err := a.db.GetKeypair(r.Context(), schema.GetKeypairParams{UserID: user, Name: name})
	if errors.Is(err, pgx.ErrNoRows) {
		return k, noKeypair(user, name)
	}
	return k, err
}

func noKeypair(user, name string) error {
	return fault.NotFound("Keypair %s not found for user %s", name, user)
}

func viewKeypair(r *Request, k schema.Keypair) map[string]any {
	view := map[string]any{"name": k.Name, "public_key": k.PublicKey, "fingerprint": k.Fingerprint}
	if r.Version >= 2 {
		view["type"] = k.Type
	}
	return view
}

func (a *API) deleteKeypair(r *Request) (any, error) {
	user, err := keypairUser(r, "delete", r.Query.Get("user_id"))
	if err != nil {
		return nil, err
	}
	name := r.Param("name")
	n, err := a.db.DeleteKeypair(r.Context(), schema.DeleteKeypairParams{UserID: user, Name: name})
	if err == nil && n == 0 {
		return nil, noKeypair(user, name)
	}
	return nil, err
}
