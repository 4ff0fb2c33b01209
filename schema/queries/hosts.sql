-- name: ServersOnHosts :many
SELECT id, name, host_id FROM servers
WHERE deleted_at IS NULL AND host_id = ANY(sqlc.arg(host_ids)::uuid[]) ORDER BY created_at, id;

-- name: SwitchHost :one
-- The operator's switches of a host. A NULL leaves one as it is; a host that is
-- enabled loses its reason.
UPDATE hosts SET
    disabled = coalesce(sqlc.narg(disabled), disabled),
    disabled_reason = CASE WHEN sqlc.narg(disabled)::boolean IS NULL THEN disabled_reason ELSE sqlc.narg(disabled_reason) END,
    forced_down = coalesce(sqlc.narg(forced_down), forced_down)
WHERE id = sqlc.arg(id) RETURNING *;

-- name: ForgetHostOfDeleted :exec
-- Deleted servers stay in the record and let go of a host that goes away.
UPDATE servers SET host_id = NULL WHERE host_id = $1 AND deleted_at IS NOT NULL;

-- name: CountServersOnHost :one
SELECT (SELECT count(*) FROM servers s WHERE s.host_id = sqlc.arg(host_id) AND s.deleted_at IS NULL)
     + (SELECT count(*) FROM claims c WHERE c.host_id = sqlc.arg(host_id)) AS servers;

-- name: DeleteHost :execrows
DELETE FROM hosts WHERE id = $1;
