package api

import (
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const (
	ruleMetadataIndex     = "os_compute_api:server-metadata:index"
	ruleMetadataShow      = "os_compute_api:server-metadata:show"
	ruleMetadataCreate    = "os_compute_api:server-metadata:create"
	ruleMetadataUpdate    = "os_compute_api:server-metadata:update"
	ruleMetadataUpdateAll = "os_compute_api:server-metadata:update_all"
	ruleMetadataDelete    = "os_compute_api:server-metadata:delete"
)

// serverMetadata is what owners write on their servers.
func (a *API) serverMetadata() Resource {
	const all, one = "/servers/:id/metadata", "/servers/:id/metadata/:key"
	return Resource{
		Rules: policy.Rules{
			ruleMetadataIndex: policy.ProjectReaderOrAdmin, ruleMetadataShow: policy.ProjectReaderOrAdmin,
			ruleMetadataCreate: policy.ProjectMemberOrAdmin, ruleMetadataUpdate: policy.ProjectMemberOrAdmin,
			ruleMetadataUpdateAll: policy.ProjectMemberOrAdmin, ruleMetadataDelete: policy.ProjectMemberOrAdmin,
		},
		Routes: []Route{
			{Method: http.MethodGet, Path: all, Handle: a.listMetadata},
			{Method: http.MethodPost, Path: all, Body: metadataBody, Handle: a.mergeMetadata},
			{Method: http.MethodPut, Path: all, Body: metadataBody, Handle: a.replaceMetadata},
			{Method: http.MethodGet, Path: one, Handle: a.showMetadata},
			{Method: http.MethodPut, Path: one, Body: metadataItemBody, Handle: a.setMetadata},
			{Method: http.MethodDelete, Path: one, Status: http.StatusNoContent, Handle: a.deleteMetadata},
		},
	}
}

var (
	metadataBody = validation.Always(validation.Object([]string{"metadata"}, validation.Properties{"metadata": validation.Metadata()}))

	metadataItem     = oneItem(validation.Metadata())
	metadataItemBody = validation.Always(validation.Object([]string{"meta"}, validation.Properties{"meta": metadataItem}))
)

func oneItem(s validation.Schema) validation.Schema {
	s["minProperties"], s["maxProperties"] = 1, 1
	return s
}

// readMetadata reads the metadata of a body.
func readMetadata(r *Request) (map[string]string, error) {
	var body struct{ Metadata map[string]string }
	err := r.Decode(&body)
	return body.Metadata, err
}

// readMetadataItem reads the one item of a body, which is that of the path.
func readMetadataItem(r *Request) (map[string]string, error) {
	var body struct{ Meta map[string]string }
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	if _, ok := body.Meta[r.Param("key")]; !ok {
		return nil, fault.BadRequest("Request body and URI mismatch")
	}
	return body.Meta, nil
}

func (a *API) listMetadata(r *Request) (any, error) {
	row, err := a.findServer(r, ruleMetadataIndex)
	if err != nil {
		return nil, err
	}
	return map[string]any{"metadata": orEmpty(row.Server.Metadata)}, nil
}

func (a *API) showMetadata(r *Request) (any, error) {
	row, err := a.findServer(r, ruleMetadataShow)
	if err != nil {
		return nil, err
	}
	value, ok := row.Server.Metadata[r.Param("key")]
	if !ok {
		return nil, noMetadata()
	}
	return map[string]any{"meta": map[string]string{r.Param("key"): value}}, nil
}

func noMetadata() error { return fault.NotFound("Metadata item was not found") }

func (a *API) mergeMetadata(r *Request) (any, error) {
	said, err := readMetadata(r)
	if err != nil {
		return nil, err
	}
	return a.changeMetadata(r, ruleMetadataCreate, func(now map[string]string) (map[string]string, error) {
		maps.Copy(now, said)
		return now, nil
	})
}

func (a *API) replaceMetadata(r *Request) (any, error) {
	said, err := readMetadata(r)
	if err != nil {
		return nil, err
	}
	return a.changeMetadata(r, ruleMetadataUpdateAll, func(map[string]string) (map[string]string, error) {
		return orEmpty(said), nil
	})
}

func (a *API) setMetadata(r *Request) (any, error) {
	said, err := readMetadataItem(r)
	if err != nil {
		return nil, err
	}
	_, err = a.changeMetadata(r, ruleMetadataUpdate, func(now map[string]string) (map[string]string, error) {
		maps.Copy(now, said)
		return now, nil
	})
	return map[string]any{"meta": said}, err
}

func (a *API) deleteMetadata(r *Request) (any, error) {
	_, err := a.changeMetadata(r, ruleMetadataDelete, func(now map[string]string) (map[string]string, error) {
		if _, ok := now[r.Param("key")]; !ok {
			return nil, noMetadata()
		}
		delete(now, r.Param("key"))
		return now, nil
	})
	return nil, err
}

// changeMetadata changes the metadata under the row's lock, so that no two
// changes at once lose one of them.
func (a *API) changeMetadata(r *Request, rule string, change func(map[string]string) (map[string]string, error)) (any, error) {
	var out map[string]string
	verb := "update metadata"
	if rule == ruleMetadataDelete {
		verb = "delete metadata"
	}
	err := a.annotate(r, rule, verb, func(q *schema.Queries, s schema.Server) (err error) {
		if out, err = change(maps.Clone(orEmpty(s.Metadata))); err != nil {
			return err
		}
		if err := a.checkMoreMetadata(r.Context(), q, s, len(out)); err != nil {
			return err
		}
		return q.SetServerMetadata(r.Context(), schema.SetServerMetadataParams{ID: s.ID, Metadata: out})
	})
	return map[string]any{"metadata": out}, err
}

// annotated are the states in which owners may write on their servers.
var annotated = []compute.VMState{compute.VMActive, compute.VMPaused, compute.VMSuspended, compute.VMStopped}

// annotate changes what is written on a server, with its row locked.
func (a *API) annotate(r *Request, rule, verb string, change func(*schema.Queries, schema.Server) error) error {
	row, err := a.findServer(r, rule)
	if err != nil {
		return err
	}
	return a.transact(r.Context(), func(q *schema.Queries) error {
		s, err := q.LockServerRow(r.Context(), row.Server.ID)
		if errors.Is(err, pgx.ErrNoRows) {
			return noServer(row.Server.ID.String())
		}
		if err != nil {
			return err
		}
		if err := checkLock(r, s); err != nil {
			return err
		}
		if !slices.Contains(annotated, s.VMState) {
			return fault.Conflict("Cannot '%s' instance %s while it is in vm_state %s", verb, s.ID, s.VMState)
		}
		return change(q, s)
	})
}
