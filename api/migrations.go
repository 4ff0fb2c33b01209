package api

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const (
	ruleMigrations            = "os_compute_api:os-migrations:index"
	ruleServerMigrationsIndex = "os_compute_api:servers:migrations:index"
	ruleServerMigrationsShow  = "os_compute_api:servers:migrations:show"
	ruleForceComplete         = "os_compute_api:servers:migrations:force_complete"
	ruleAbortMigration        = "os_compute_api:servers:migrations:delete"
)

// The versions that changed migrations.
const (
	migrationTyped  microversion.Version = 23
	migrationPaged  microversion.Version = 59
	migrationBefore microversion.Version = 66
	migrationWhose  microversion.Version = 80
)

// migrations are the moves of all servers, as operators look at them.
func (a *API) migrations() Resource {
	return Resource{
		Rules:  policy.Rules{ruleMigrations: policy.Admin},
		Routes: []Route{{Method: http.MethodGet, Path: "/os-migrations", Rule: ruleMigrations, Query: migrationQuery, Handle: a.listMigrations}},
	}
}

// serverMigrations are those moves of a server that are under way, from 2.23 on. Only live ones
// can be hurried or stopped.
func (a *API) serverMigrations() Resource {
	const path = "/servers/:id/migrations"
	return Resource{
		Rules: policy.Rules{
			ruleServerMigrationsIndex: policy.Admin, ruleServerMigrationsShow: policy.Admin,
			ruleForceComplete: policy.Admin, ruleAbortMigration: policy.Admin,
		},
		Routes: []Route{
			{Method: http.MethodGet, Path: path, Min: migrationTyped, Handle: a.listServerMigrations},
			{Method: http.MethodGet, Path: path + "/:migration", Min: migrationTyped, Handle: a.showServerMigration},
			{Method: http.MethodDelete, Path: path + "/:migration", Min: 24, Status: http.StatusAccepted, Handle: a.abortMigration},
			{
				Method: http.MethodPost, Path: path + "/:migration/action", Action: "force_complete", Min: 22, Body: forceCompleteBody,
				Status: http.StatusAccepted, Handle: a.forceComplete,
			},
		},
	}
}

var forceCompleteBody = validation.Always(validation.Object([]string{"force_complete"}, validation.Properties{"force_complete": validation.Null}))

var migrationQuery = validation.Since(func(v microversion.Version) validation.Schema {
	p := validation.Properties{}
	for _, name := range []string{"hidden", "host", "instance_uuid", "source_compute", "status", "migration_type"} {
		p[name] = validation.Repeated(validation.Text)
	}
	if v < migrationPaged {
		return validation.Open(p)
	}
	p["limit"], p["marker"], p["changes-since"] = validation.Single(validation.NonNegative), validation.Single(validation.UUID), validation.Single(validation.DateTime)
	if v >= migrationBefore {
		p["changes-before"] = validation.Single(validation.DateTime)
	}
	if v >= migrationWhose {
		p["user_id"], p["project_id"] = validation.Single(validation.Text), validation.Single(validation.Text)
	}
	return validation.Object(nil, p)
}, microversion.Min, migrationPaged, migrationBefore, migrationWhose)

func (a *API) listMigrations(r *Request) (any, error) {
	find, err := a.migrationFilter(r)
	if err != nil {
		return nil, err
	}
	hidden := false // no migration is
	if text := r.Query.Get("hidden"); text != "" {
		if hidden, err = compute.ParseBool(text); err != nil {
			return nil, err
		}
	}
	rows := []schema.Migration{}
	if find.Most > 0 && !hidden {
		if rows, err = a.db.ListMigrations(r.Context(), find); err != nil {
			return nil, err
		}
	}
	views := []map[string]any{}
	for _, m := range rows {
		views = append(views, a.viewMigration(r, m))
	}
	var next []Link
	if r.Version >= migrationPaged && len(rows) > 0 {
		next = r.Next("os-migrations", len(rows), rows[len(rows)-1].UUID.String())
	}
	return Collection("migrations", views, next), nil
}

// migrationFilter reads the query of a list.
func (a *API) migrationFilter(r *Request) (find schema.ListMigrationsParams, err error) {
	find.Most = MaxLimit
	text := func(name string) *string {
		if !r.Query.Has(name) {
			return nil
		}
		value := r.Query.Get(name)
		return &value
	}
	find.Status, find.Host, find.Source, find.Type = text("status"), text("host"), text("source_compute"), text("migration_type")
	if id := text("instance_uuid"); id != nil {
		server, err := uuid.Parse(*id)
		if err != nil { // no server has it
			server = uuid.UUID{}
		}
		find.ServerID = &server
	}
	if r.Version >= migrationWhose {
		find.UserID, find.ProjectID = text("user_id"), text("project_id")
	}
	if r.Version < migrationPaged {
		return find, nil
	}
	find.Most = int32(r.Limit())
	if marker := r.Marker(); marker != "" {
		id, err := uuid.Parse(marker)
		if err != nil {
			return find, fault.BadRequest("Marker %s could not be found.", marker)
		}
		last, err := a.db.MigrationByUUID(r.Context(), id)
		if errors.Is(err, pgx.ErrNoRows) {
			return find, fault.BadRequest("Marker %s could not be found.", marker)
		}
		if err != nil {
			return find, err
		}
		find.Below = &last.Number
	}
	if find.Since, find.Until, err = changesBetween(r); err != nil {
		return find, err
	}
	return find, nil
}

// changesBetween reads changes-since and changes-before.
func changesBetween(r *Request) (since, until *time.Time, err error) {
	for name, bound := range map[string]**time.Time{"changes-since": &since, "changes-before": &until} {
		if text := r.Query.Get(name); text != "" {
			at, err := validation.ParseTime(text)
			if err != nil {
				return nil, nil, fault.BadRequest("Invalid %s value", name)
			}
			*bound = &at
		}
	}
	if since != nil && until != nil && since.After(*until) {
		return nil, nil, fault.BadRequest("The value of changes-since must be less than or equal to changes-before.")
	}
	return since, until, nil
}

// viewMigration is a migration in a list of all.
func (a *API) viewMigration(r *Request, m schema.Migration) map[string]any {
	v := map[string]any{
		"id": m.Number, "instance_uuid": m.ServerID.String(), "status": m.Status,
		"source_compute": m.Source, "source_node": m.Source, "dest_compute": m.Destination, "dest_node": m.Destination, "dest_host": m.Address,
		"old_instance_type_id": flavorNumber(m.OldFlavor), "new_instance_type_id": flavorNumber(m.NewFlavor),
		"created_at": microseconds(&m.CreatedAt), "updated_at": microseconds(&m.UpdatedAt),
	}
	if r.Version >= migrationTyped {
		v["migration_type"] = m.Type
		if m.Type == "live-migration" && slices.Contains(statusesUnderWay, m.Status) {
			v["links"] = r.Links("servers/"+m.ServerID.String()+"/migrations", strconv.FormatInt(m.Number, 10))
		}
	}
	if r.Version >= migrationPaged {
		v["uuid"] = m.UUID.String()
	}
	if r.Version >= migrationWhose {
		v["user_id"], v["project_id"] = m.UserID, m.ProjectID
	}
	return v
}

// flavorNumber is a flavor's id as the integer that Nova has there; 0 for one that is none.
func flavorNumber(id string) int {
	n, err := strconv.Atoi(id)
	if err != nil {
		return 0
	}
	return n
}

// migrationOf finds the migration that the path names.
func (a *API) migrationOf(r *Request, rule string) (schema.Migration, error) {
	row, err := a.findServer(r, rule)
	if err != nil {
		return schema.Migration{}, err
	}
	unknown := fault.NotFound("Migration %s could not be found for instance %s.", r.Param("migration"), row.Server.ID)
	number, err := strconv.ParseInt(r.Param("migration"), 10, 64)
	if err != nil {
		return schema.Migration{}, unknown
	}
	m, err := a.db.MigrationOfServer(r.Context(), schema.MigrationOfServerParams{ServerID: row.Server.ID, Number: number})
	if errors.Is(err, pgx.ErrNoRows) {
		return m, unknown
	}
	return m, err
}
