-- name: InsertOperation :exec
INSERT INTO operations (id, server_id, subject_kind, subject_id, kind, project_id, user_id, credential_id, arguments, state, started_at, finished_at)
VALUES ($1, nullif(sqlc.arg(server_id)::uuid, '00000000-0000-0000-0000-000000000000'), $2, $3, $4, $5, $6, $7, $8, $9,
    CASE WHEN sqlc.arg(settled)::boolean THEN now() END, CASE WHEN sqlc.arg(settled) THEN now() END);

-- name: GetOperation :one
SELECT * FROM operations WHERE id = $1;

-- name: BeginOperation :execrows
-- The fence: only the current operation of a server may begin.
UPDATE operations o SET state = 'running', started_at = coalesce(o.started_at, now()), updated_at = now()
WHERE o.id = $1 AND o.state IN ('accepted', 'running')
    AND (o.server_id IS NULL OR EXISTS (SELECT FROM servers s WHERE s.id = o.server_id AND s.current_operation = o.id));

-- name: SettleOperation :execrows
-- What a rebuild was given as user data goes with it: the server has what it took of that.
UPDATE operations SET state = $2, message = $3, finished_at = coalesce(finished_at, now()), updated_at = now(),
    arguments = CASE WHEN arguments -> 'change' ? 'user_data' THEN arguments #- '{change,user_data}' ELSE arguments END
WHERE id = $1 AND state IN ('accepted', 'running');

-- name: OpenOperations :many
-- Accepted or running, and not touched for a while: those first that never started, then
-- those that nobody looked at for the longest time. superseded: the server is not the operation's any more.
-- aborted: a live migration that is to end before its guest is touched, or an operation on a volume that was given up.
SELECT sqlc.embed(o), coalesce(s.current_operation <> o.id, false)::boolean AS superseded,
    (EXISTS (SELECT FROM migrations m WHERE m.operation_id = o.id AND m.type = 'live-migration' AND m.wish = 'abort'
            AND m.status IN ('queued', 'preparing'))
        OR o.subject_kind = 'volume' AND NOT EXISTS (SELECT FROM secure_volumes v WHERE v.id = o.subject_id))::boolean AS aborted
FROM operations o LEFT JOIN servers s ON s.id = o.server_id
WHERE o.state IN ('accepted', 'running') AND o.updated_at < now() - make_interval(secs => sqlc.arg(seconds)::float8)
ORDER BY (o.started_at IS NOT NULL), o.looked_at NULLS FIRST, o.accepted_at LIMIT sqlc.arg(most);

-- name: KnownOperations :many
-- Those of some operations that are on record.
SELECT id FROM operations WHERE id = ANY(sqlc.arg(ids)::text[]);

-- name: UnsettledOperations :many
SELECT * FROM operations WHERE state IN ('accepted', 'running') ORDER BY accepted_at, id LIMIT sqlc.arg(most);

-- name: NoteLook :exec
-- A pass of the repair has tried it, successfully or not.
UPDATE operations SET looked_at = clock_timestamp() WHERE id = $1;

-- name: TouchOperation :exec
UPDATE operations SET updated_at = now() WHERE id = $1;

-- name: StartEvent :exec
INSERT INTO operation_events (operation_id, event, host_id, host, started_at)
VALUES ($1, $2, $3, $4, now())
ON CONFLICT (operation_id, event, host_id) DO UPDATE SET host = excluded.host, finished_at = NULL, result = NULL, details = NULL;

-- name: FinishEvent :exec
UPDATE operation_events SET finished_at = now(), result = sqlc.arg(result), details = sqlc.narg(details)
WHERE operation_id = sqlc.arg(operation_id) AND event = sqlc.arg(event) AND finished_at IS NULL
    AND host_id IS NOT DISTINCT FROM sqlc.narg(host_id);

-- name: CloseEvents :exec
-- Events that were still open when their operation ended.
UPDATE operation_events SET finished_at = now(), result = $2 WHERE operation_id = $1 AND finished_at IS NULL;
