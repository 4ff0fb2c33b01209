-- name: ServersOnHosts :many
SELECT id, name, host_id FROM servers
WHERE deleted_at IS NULL AND host_id = ANY(sqlc.arg(host_ids)::uuid[]) ORDER BY created_at, id;

-- name: HostUseByProject :many
-- What servers hold of a host, by their projects.
SELECT s.project_id, sum(c.vcpus)::bigint AS vcpus, sum(c.memory_mb)::bigint AS memory_mb,
    (sum(c.disk_gb) + ceil(sum(c.group_mb) / 1024.0))::bigint AS disk_gb
FROM claims c JOIN servers s ON s.id = c.server_id WHERE c.host_id = $1 GROUP BY s.project_id ORDER BY s.project_id;

-- name: SwitchHost :one
-- The operator's switches of a host. A NULL leaves one as it is; a host that is
-- enabled loses its reason.
UPDATE hosts SET
    disabled = coalesce(sqlc.narg(disabled), disabled),
    disabled_reason = CASE WHEN sqlc.narg(disabled)::boolean IS NULL THEN disabled_reason ELSE sqlc.narg(disabled_reason) END,
    forced_down = coalesce(sqlc.narg(forced_down), forced_down)
WHERE id = sqlc.arg(id) RETURNING *;

-- name: ForgetHostOfDeleted :exec
-- Rows of deleted servers stay and must not refer to a host that is deleted.
UPDATE servers SET host_id = NULL WHERE host_id = $1 AND deleted_at IS NOT NULL;

-- name: DeleteHost :execrows
DELETE FROM hosts WHERE id = $1;

-- name: FindHost :one
-- A host by its name or uuid.
SELECT id, name FROM hosts WHERE name = sqlc.arg(host)::text OR id::text = lower(sqlc.arg(host)::text)
ORDER BY name = sqlc.arg(host)::text DESC LIMIT 1;

-- name: ServersHere :one
-- What keeps a host from being forgotten or deleted: servers on it, among them those that are coming while they
-- run, and things there that do not wait. Its own volume is none of them.
SELECT (SELECT count(*) FROM servers s WHERE s.deleted_at IS NULL
        AND (s.host_id = sqlc.arg(host_id) OR EXISTS (SELECT FROM claims c WHERE c.server_id = s.id AND c.host_id = sqlc.arg(host_id)))) AS servers,
    (SELECT count(*) FROM migrations m JOIN operations o ON o.id = m.operation_id
        WHERE m.type = 'live-migration' AND m.destination_id = sqlc.arg(host_id) AND o.state IN ('accepted', 'running')) AS arriving,
    (SELECT count(*) FROM ledger l WHERE l.host_id = sqlc.arg(host_id) AND l.state NOT IN ('released', 'waiting') AND l.owner_kind <> 'volume') AS things;

-- name: ForgetHost :exec
UPDATE hosts SET forgotten_at = coalesce(forgotten_at, now()) WHERE id = $1;

-- name: DeleteClaimsOfDeleted :exec
DELETE FROM claims c USING servers s WHERE c.host_id = $1 AND s.id = c.server_id AND s.deleted_at IS NOT NULL;

-- name: CountWaitingOn :one
SELECT count(*) FROM ledger WHERE host_id = $1 AND state = 'waiting';

-- name: WaitingOn :many
-- What goes unremoved with a host: not what another one is to put back (PassKeptTPM) or removes (PassWaitingDisks).
SELECT * FROM ledger l WHERE l.host_id = $1 AND l.state = 'waiting'
    AND NOT (l.owner_kind = 'server' AND l.kind = 'tpm_state' AND l.reference <> '' AND EXISTS (
        SELECT FROM hosts h JOIN hosts p ON p.tpm_storage = h.tpm_storage AND p.id <> h.id AND p.forgotten_at IS NULL
        WHERE h.id = l.host_id AND h.tpm_storage <> ''))
    AND NOT (l.owner_kind = 'server' AND l.kind IN ('disk_file', 'key_slot') AND EXISTS (
        SELECT FROM hosts h JOIN hosts p ON p.disk_storage = h.disk_storage AND p.id <> h.id AND p.forgotten_at IS NULL
        WHERE h.id = l.host_id AND h.disk_storage <> ''))
ORDER BY l.owner_kind, l.owner_id, l.kind, l.name;

-- name: ReleaseWaitingOn :many
-- Nobody will remove them any more. The reason stays, for people.
UPDATE ledger SET state = 'released', blocked_by = '', released_at = now(), updated_at = now()
WHERE host_id = $1 AND state = 'waiting' RETURNING *;

-- name: HostCondition :one
-- down: an operator said that nothing answers there, and what is on it can wait. stale: it
-- has not reported itself for host_timeout, which may be the database's own outage.
SELECT (forced_down OR forgotten_at IS NOT NULL)::boolean AS down,
       (last_seen <= now() - make_interval(secs => sqlc.arg(host_timeout)::float8))::boolean AS stale
FROM hosts WHERE id = sqlc.arg(id);
