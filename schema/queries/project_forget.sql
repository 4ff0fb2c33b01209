-- name: LeftInProjects :many
-- What the ledger has of projects in the cloud's services; what was handed over is their users'.
SELECT project_id, count(*) AS things FROM ledger
WHERE project_id = ANY(sqlc.arg(projects)::text[]) AND host_id IS NULL AND state NOT IN ('released', 'handed_over')
GROUP BY project_id ORDER BY project_id;

-- name: ServersOfProject :one
SELECT count(*) FROM servers WHERE project_id = $1 AND deleted_at IS NULL;

-- name: WaitingInProject :many
SELECT * FROM ledger WHERE project_id = $1 AND host_id IS NULL AND state = 'waiting' ORDER BY owner_kind, owner_id, kind, name;

-- name: ReleaseWaitingInProject :many
-- Nobody can remove them any more. The reason stays, for people.
UPDATE ledger SET state = 'released', blocked_by = '', released_at = now(), updated_at = now()
WHERE project_id = $1 AND host_id IS NULL AND state = 'waiting' RETURNING *;
