-- name: InsertServerGroup :one
INSERT INTO server_groups (id, project_id, user_id, name, policy, max_per_host) VALUES ($1, $2, $3, $4, $5, $6) RETURNING *;

-- name: FindServerGroup :one
SELECT * FROM server_groups WHERE id = $1;

-- name: ListServerGroups :many
-- A project's groups, or those of all projects, the oldest first.
SELECT * FROM server_groups WHERE sqlc.narg(project_id)::text IS NULL OR project_id = sqlc.narg(project_id)
ORDER BY number LIMIT sqlc.arg(most) OFFSET sqlc.arg(beyond);

-- name: DeleteServerGroup :execrows
DELETE FROM server_groups WHERE id = $1;

-- name: CountServerGroups :one
SELECT count(*) FROM server_groups WHERE project_id = $1;

-- name: GroupMembers :many
-- The servers of groups, without those that are deleted.
SELECT h.group_id, h.server_id FROM server_hints h JOIN servers s ON s.id = h.server_id
WHERE h.group_id = ANY(sqlc.arg(groups)::uuid[]) AND s.deleted_at IS NULL ORDER BY s.number;

-- name: CountGroupMembers :one
SELECT count(*) FROM server_hints h JOIN servers s ON s.id = h.server_id
WHERE h.group_id = sqlc.arg(group_id) AND s.user_id = sqlc.arg(user_id) AND s.deleted_at IS NULL;

-- name: InsertServerHints :exec
INSERT INTO server_hints (server_id, group_id, different_host, same_host, host_id, requested_by) VALUES ($1, $2, $3, $4, $5, $6);

-- name: ServerHints :one
-- What the create of a server asked of its host, and the policy of its group.
SELECT h.different_host, h.same_host, h.host_id, h.requested_by, h.group_id, coalesce(g.policy, '')::text AS policy, coalesce(g.max_per_host, 1)::integer AS max_per_host
FROM server_hints h LEFT JOIN server_groups g ON g.id = h.group_id WHERE h.server_id = $1;

-- name: LockServerGroup :execrows
-- Of all claims for servers of a group, one looks and writes at a time.
SELECT FROM server_groups WHERE id = $1 FOR NO KEY UPDATE;

-- name: GroupHosts :many
-- Where a group's other servers are. One that moves is on both of its hosts.
SELECT DISTINCT c.server_id, c.host_id FROM server_hints h JOIN claims c ON c.server_id = h.server_id
WHERE h.group_id = sqlc.arg(group_id) AND h.server_id <> sqlc.arg(server_id);

-- name: ServersHosts :many
-- Where servers are; those that are deleted have no row.
SELECT s.id, ARRAY(SELECT c.host_id FROM claims c WHERE c.server_id = s.id)::uuid[] AS hosts FROM servers s
WHERE s.id = ANY(sqlc.arg(servers)::uuid[]) AND s.deleted_at IS NULL;

-- name: VisibleServers :many
-- Those of the servers that are there, and of the project where one is named.
SELECT id FROM servers WHERE id = ANY(sqlc.arg(servers)::uuid[]) AND deleted_at IS NULL
    AND (sqlc.narg(project_id)::text IS NULL OR project_id = sqlc.narg(project_id));
