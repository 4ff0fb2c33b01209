-- name: InsertOperation :exec
INSERT INTO operations (id, server_id, kind, project_id, user_id, credential_id, arguments, state, started_at, finished_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: GetOperation :one
SELECT * FROM operations WHERE id = $1;

-- name: BeginOperation :execrows
-- The fence: only the server's current operation may begin.
UPDATE operations o SET state = 'running', started_at = coalesce(o.started_at, now()), updated_at = now()
FROM servers s
WHERE o.id = $1 AND s.id = o.server_id AND s.current_operation = o.id AND o.state IN ('accepted', 'running');

-- name: SettleOperation :execrows
UPDATE operations SET state = $2, message = $3, finished_at = coalesce(finished_at, now()), updated_at = now()
WHERE id = $1 AND state IN ('accepted', 'running');

-- name: OpenOperations :many
-- What the sweeper looks at: accepted or running, and not touched for a while.
SELECT * FROM operations
WHERE state IN ('accepted', 'running') AND updated_at < now() - make_interval(secs => sqlc.arg(seconds)::float8)
ORDER BY accepted_at LIMIT 500;

-- name: TouchOperation :exec
UPDATE operations SET updated_at = now() WHERE id = $1;

-- name: StartEvent :exec
INSERT INTO operation_events (operation_id, event, host_id, host, started_at)
VALUES ($1, $2, $3, $4, now())
ON CONFLICT (operation_id, event) DO UPDATE SET host_id = excluded.host_id, host = excluded.host, finished_at = NULL, result = NULL, details = NULL;

-- name: FinishEvent :exec
UPDATE operation_events SET finished_at = now(), result = $3, details = $4
WHERE operation_id = $1 AND event = $2;

-- name: CloseEvents :exec
-- Events that were still open when their operation ended.
UPDATE operation_events SET finished_at = now(), result = $2 WHERE operation_id = $1 AND finished_at IS NULL;
