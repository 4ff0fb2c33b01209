package api

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

// The versions that changed aggregates.
const (
	aggregateUUIDs  microversion.Version = 41
	aggregateImages microversion.Version = 81
)

// notCachedAhead says why no host is told to fetch images before there is a server.
const notCachedAhead = "Images are not cached ahead of servers: a host gets of an image service only what an operation on one of its servers uses."

// aggregates are groups of hosts: in an availability zone, or with metadata by which hosts are chosen.
func (a *API) aggregates() Resource {
	const (
		root   = "os_compute_api:os-aggregates:"
		images = "compute:aggregates:images"
		path   = "/os-aggregates"
		one    = path + "/:id"
		action = one + "/action"
	)
	out := Resource{Rules: policy.Rules{}, Routes: []Route{
		{Method: http.MethodGet, Path: path, Rule: root + "index", Handle: a.listAggregates},
		{Method: http.MethodPost, Path: path, Rule: root + "create", Body: aggregateCreate, Handle: a.createAggregate},
		{Method: http.MethodGet, Path: one, Rule: root + "show", Handle: a.showAggregate},
		{Method: http.MethodPut, Path: one, Rule: root + "update", Body: aggregateUpdate, Handle: a.updateAggregate},
		{Method: http.MethodDelete, Path: one, Rule: root + "delete", Handle: a.deleteAggregate},
		{Method: http.MethodPost, Path: action, Action: "add_host", Rule: root + "add_host", Body: aggregateHost("add_host"), Handle: a.addAggregateHost},
		{Method: http.MethodPost, Path: action, Action: "remove_host", Rule: root + "remove_host", Body: aggregateHost("remove_host"), Handle: a.removeAggregateHost},
		{Method: http.MethodPost, Path: action, Action: "set_metadata", Rule: root + "set_metadata", Body: aggregateMetadata, Handle: a.setAggregateMetadata},
		{
			Method: http.MethodPost, Path: one + "/images", Min: aggregateImages, Rule: images, Body: aggregateCache, Status: http.StatusAccepted,
			Refused: notCachedAhead, Handle: a.refuseCache,
		},
	}}
	for _, route := range out.Routes {
		out.Rules[route.Rule] = policy.Admin
	}
	return out
}

var (
	zoneOrNull = validation.Schema{"oneOf": []any{validation.ZoneName, validation.Null}}

	aggregateCreate = validation.Always(validation.Object([]string{"aggregate"}, validation.Properties{
		"aggregate": validation.Object([]string{"name"}, validation.Properties{"name": validation.Name, "availability_zone": zoneOrNull}),
	}))
	aggregateUpdate = validation.Always(validation.Object([]string{"aggregate"}, validation.Properties{"aggregate": func() validation.Schema {
		s := validation.Object(nil, validation.Properties{"name": validation.NameOrSpaces, "availability_zone": zoneOrNull})
		s["anyOf"] = []any{validation.Schema{"required": []string{"name"}}, validation.Schema{"required": []string{"availability_zone"}}}
		return s
	}()}))
	aggregateMetadata = validation.Always(validation.Object([]string{"set_metadata"}, validation.Properties{
		"set_metadata": validation.Object([]string{"metadata"}, validation.Properties{"metadata": validation.Metadata("string", "null")}),
	}))
	aggregateCache = validation.Always(validation.Object([]string{"cache"}, validation.Properties{
		"cache": {"type": "array", "minItems": 1, "items": validation.Object([]string{"id"}, validation.Properties{"id": validation.UUID})},
	}))
)

func aggregateHost(action string) validation.Versions {
	return validation.Always(validation.Object([]string{action}, validation.Properties{
		action: validation.Object([]string{"host"}, validation.Properties{"host": validation.Hostname}),
	}))
}

func (a *API) listAggregates(r *Request) (any, error) {
	rows, err := a.db.ListAggregates(r.Context(), nil)
	if err != nil {
		return nil, err
	}
	views := make([]map[string]any, len(rows))
	for i, row := range rows {
		views[i] = viewAggregate(r, row)
	}
	return map[string]any{"aggregates": views}, nil
}

func (a *API) showAggregate(r *Request) (any, error) {
	number, err := aggregateNumber(r)
	if err != nil {
		return nil, err
	}
	return answerAggregate(r, a.db, number)
}

// answerAggregate is the answer of a request about one aggregate.
func answerAggregate(r *Request, q *schema.Queries, number int64) (any, error) {
	rows, err := q.ListAggregates(r.Context(), &number)
	if err == nil && len(rows) == 0 {
		err = noAggregate(r)
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"aggregate": viewAggregate(r, rows[0])}, nil
}

// createAggregate answers without hosts and metadata, as Nova does.
func (a *API) createAggregate(r *Request) (any, error) {
	var body struct {
		Aggregate struct {
			Name string
			Zone *string `json:"availability_zone"`
		}
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	row := schema.InsertAggregateParams{UUID: r.ID.Derive("aggregate"), Name: strings.TrimSpace(body.Aggregate.Name), Metadata: map[string]string{}}
	if zone := body.Aggregate.Zone; zone != nil {
		row.Metadata[compute.AggregateZone] = *zone
	}
	made, err := a.db.InsertAggregate(r.Context(), row)
	if err != nil {
		return nil, nameTaken(err, row.Name)
	}
	return map[string]any{"aggregate": viewBareAggregate(r, made)}, nil
}

// nameTaken gives an error its fault where another aggregate has the name.
func nameTaken(err error, name string) error {
	if violated(err) == "aggregates_name_key" {
		return fault.Conflict("Aggregate %s already exists.", name)
	}
	return err
}

// deleteAggregate answers with a 200 without a body, as Nova does.
func (a *API) deleteAggregate(r *Request) (any, error) {
	_, err := a.changeAggregate(r, func(q *schema.Queries, row schema.Aggregate) (any, error) {
		hosts, err := q.LockAggregateHosts(r.Context(), row.Number)
		if err == nil && len(hosts) > 0 {
			err = fault.BadRequest(cannotRemoveHost, row.Number, "Host aggregate is not empty")
		}
		if err != nil {
			return nil, err
		}
		return nil, q.DeleteAggregate(r.Context(), row.Number)
	})
	return nil, err
}

// refuseCache checks what Nova checks.
func (a *API) refuseCache(r *Request) (any, error) {
	var body struct {
		Cache []struct{ ID uuid.UUID }
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	number, err := aggregateNumber(r)
	if err != nil {
		return nil, err
	}
	seen := map[uuid.UUID]bool{}
	for _, image := range body.Cache {
		if seen[image.ID] {
			return nil, fault.BadRequest("Duplicate images in request")
		}
		seen[image.ID] = true
	}
	if _, err := answerAggregate(r, a.db, number); err != nil {
		return nil, err
	}
	return nil, fault.BadRequest(notCachedAhead)
}

// changeAggregate runs a change of an aggregate in a transaction in which nobody else changes it.
func (a *API) changeAggregate(r *Request, change func(*schema.Queries, schema.Aggregate) (any, error)) (answer any, err error) {
	number, err := aggregateNumber(r)
	if err != nil {
		return nil, err
	}
	err = a.transact(r.Context(), func(q *schema.Queries) error {
		row, err := q.LockAggregate(r.Context(), number)
		if errors.Is(err, pgx.ErrNoRows) {
			return noAggregate(r)
		}
		if err == nil {
			answer, err = change(q, row)
		}
		return err
	})
	return answer, err
}

// aggregateNumber is the aggregate that the path names. A number that no aggregate can have is one that none has.
func aggregateNumber(r *Request) (int64, error) {
	number, err := strconv.ParseInt(r.Param("id"), 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, noAggregate(r)
	}
	if err != nil {
		return 0, fault.BadRequest("Invalid input received: id must be an integer")
	}
	return number, nil
}

func noAggregate(r *Request) error {
	return fault.NotFound("Aggregate %s could not be found.", r.Param("id"))
}

func viewAggregate(r *Request, row schema.ListAggregatesRow) map[string]any {
	view := viewBareAggregate(r, row.Aggregate)
	view["hosts"], view["metadata"] = orNone(row.Hosts), row.Aggregate.Metadata
	return view
}

func viewBareAggregate(r *Request, row schema.Aggregate) map[string]any {
	view := map[string]any{
		"id": row.Number, "name": row.Name, "availability_zone": orNull(row.Metadata[compute.AggregateZone]),
		"created_at": microseconds(&row.CreatedAt), "updated_at": microseconds(row.UpdatedAt), "deleted": false, "deleted_at": nil,
	}
	if r.Version >= aggregateUUIDs {
		view["uuid"] = row.UUID
	}
	return view
}
