package api

import (
	"slices"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/compute"
	"strongroom/schema"
)

// migrationQueued is the version from which a live migration can be aborted that has not begun to
// move the guest.
const migrationQueued microversion.Version = 65

const statusRunning = "running"

// statusesUnderWay are those of live migrations that have not ended.
var statusesUnderWay = []string{"queued", "preparing", statusRunning, "post-migrating"}

// listServerMigrations lists the live migrations of a server that are under way.
func (a *API) listServerMigrations(r *Request) (any, error) {
	row, err := a.findServer(r, ruleServerMigrationsIndex)
	if err != nil {
		return nil, err
	}
	rows, err := a.db.LiveMigrations(r.Context(), row.Server.ID)
	if err != nil {
		return nil, err
	}
	views := []map[string]any{}
	for _, m := range rows {
		views = append(views, viewLiveMigration(r, m))
	}
	return map[string]any{"migrations": views}, nil
}

func (a *API) showServerMigration(r *Request) (any, error) {
	m, err := a.migrationOf(r, ruleServerMigrationsShow)
	switch {
	case err != nil:
		return nil, err
	case m.Type != "live-migration":
		return nil, fault.NotFound("Migration %d for server %s is not live-migration.", m.Number, m.ServerID)
	case !slices.Contains(statusesUnderWay, m.Status):
		return nil, fault.NotFound("Migration %d for server %s is not in progress.", m.Number, m.ServerID)
	}
	return map[string]any{"migration": viewLiveMigration(r, m)}, nil
}

// viewLiveMigration is a live migration that is under way.
func viewLiveMigration(r *Request, m schema.Migration) map[string]any {
	v := map[string]any{
		"id": m.Number, "server_uuid": m.ServerID.String(), "status": m.Status,
		"source_compute": m.Source, "source_node": m.Source, "dest_compute": m.Destination, "dest_node": m.Destination, "dest_host": m.Address,
		"memory_total_bytes": m.MemoryTotal, "memory_processed_bytes": m.MemoryProcessed, "memory_remaining_bytes": m.MemoryRemaining,
		"disk_total_bytes": m.DiskTotal, "disk_processed_bytes": m.DiskProcessed, "disk_remaining_bytes": m.DiskRemaining,
		"created_at": microseconds(&m.CreatedAt), "updated_at": microseconds(&m.UpdatedAt),
	}
	if r.Version >= migrationPaged {
		v["uuid"] = m.UUID.String()
	}
	if r.Version >= migrationWhose {
		v["user_id"], v["project_id"] = m.UserID, m.ProjectID
	}
	return v
}

// abortMigration ends a live migration: the guest runs on where it is. One that has moved meanwhile
// has moved. One that has not begun to move the guest is cancelled at once, whatever it waits for; should it begin
// meanwhile, its cancel ends it, too.
func (a *API) abortMigration(r *Request) (any, error) {
	statuses := []string{statusRunning}
	if r.Version >= migrationQueued {
		statuses = []string{"queued", "preparing", statusRunning}
	}
	m, err := a.wish(r, ruleAbortMigration, compute.WishAbort, "abort live migration", statuses)
	if err != nil || m.Status == statusRunning {
		return nil, err
	}
	op, err := a.db.GetOperation(r.Context(), m.OperationID)
	if err == nil {
		a.outbox.Cancel(r.Context(), op.Operation())
	}
	return nil, err
}

// forceComplete has a live migration come to its end: the guest is stopped for as long as what is
// left takes.
func (a *API) forceComplete(r *Request) (any, error) {
	_, err := a.wish(r, ruleForceComplete, compute.WishComplete, "force complete", []string{statusRunning})
	return nil, err
}

// wish writes down what is wished of a live migration, and gives it as it was found. The host that the server leaves learns it
// when it tells how far the migration is.
func (a *API) wish(r *Request, rule string, wish compute.Wish, method string, statuses []string) (schema.Migration, error) {
	m, err := a.migrationOf(r, rule)
	if err != nil {
		return m, err
	}
	changed := int64(0)
	if m.Type == "live-migration" {
		changed, err = a.db.WishOfMigration(r.Context(), schema.WishOfMigrationParams{Number: m.Number, Wish: string(wish), Statuses: statuses})
	}
	if err != nil || changed > 0 {
		return m, err
	}
	if m.Type != "live-migration" {
		return m, fault.BadRequest("Migration %d of instance %s is no live migration: Cannot %s it.", m.Number, m.ServerID, method)
	}
	return m, fault.BadRequest("Migration %d state of instance %s is %s. Cannot %s while the migration is in this state.", m.Number, m.ServerID, m.Status, method)
}
