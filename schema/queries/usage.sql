-- name: ServersInPeriod :many
-- The servers that ran at any time of a period, the oldest first, after one of them.
SELECT id, project_id, name, vm_state, flavor, launched_at, terminated_at FROM servers
WHERE launched_at < sqlc.arg(until)::timestamptz AND (terminated_at IS NULL OR terminated_at > sqlc.arg(since)::timestamptz)
    AND (sqlc.narg(project_id)::text IS NULL OR project_id = sqlc.narg(project_id))
    AND number > coalesce((SELECT m.number FROM servers m WHERE m.id = sqlc.narg(marker)::uuid), 0)
ORDER BY number LIMIT sqlc.arg(most);

-- name: HasServer :one
SELECT EXISTS (SELECT FROM servers WHERE id = sqlc.arg(id)::uuid AND (sqlc.narg(project_id)::text IS NULL OR project_id = sqlc.narg(project_id)))::boolean;
