-- name: FindServer :one
-- A server with what the API shows of its host; deleted ones too.
SELECT sqlc.embed(s), h.name AS host_name, h.disabled AS host_disabled, h.forced_down AS host_forced_down, h.last_seen AS host_last_seen,
    h.fence_after AS host_fence_after, h.agent_url AS host_agent,
    coalesce((SELECT m.value FROM server_system_metadata m WHERE m.server_id = s.id AND m.key = 'pinned_availability_zone'), '')::text AS pinned_zone,
    (SELECT i.group_id FROM server_hints i WHERE i.server_id = s.id) AS group_id
FROM servers s LEFT JOIN hosts h ON h.id = s.host_id
WHERE s.id = $1;

-- name: ListServers :many
-- These servers, in this order, as FindServer gives them: no more once those before have so many bytes.
SELECT sqlc.embed(s), h.name AS host_name, h.disabled AS host_disabled, h.forced_down AS host_forced_down, h.last_seen AS host_last_seen,
    h.fence_after AS host_fence_after, h.agent_url AS host_agent,
    coalesce((SELECT m.value FROM server_system_metadata m WHERE m.server_id = s.id AND m.key = 'pinned_availability_zone'), '')::text AS pinned_zone,
    (SELECT i.group_id FROM server_hints i WHERE i.server_id = s.id) AS group_id
FROM (
    SELECT l.id, w.place,
        coalesce(sum(octet_length(l::text)) OVER (ORDER BY w.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before
    FROM unnest(sqlc.arg(ids)::uuid[]) WITH ORDINALITY AS w (id, place) JOIN servers l ON l.id = w.id
) wanted
JOIN servers s ON s.id = wanted.id LEFT JOIN hosts h ON h.id = s.host_id
WHERE wanted.bytes_before < sqlc.arg(most_bytes)::bigint
ORDER BY wanted.place;

-- name: InsertServer :exec
INSERT INTO servers (id, project_id, user_id, name, description, hostname, reservation_id, launch_index, vm_state, task_state,
    availability_zone, flavor, image_id, image, tpm, required_traits, forbidden_traits, networks, metadata, tags, key_name, key_data,
    user_data, config_drive, disk_config, access_ip_v4, access_ip_v6, current_operation, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28,
    now(), now());

-- name: InsertServerDisk :exec
INSERT INTO server_disks (id, server_id, role, index, device_name, bus, size_mb, boot_index, guest_format, image_id, tag, encrypted,
    encryption_format)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);

-- name: TakeServer :execrows
-- The compare-and-set by which an operation takes its server: 0 rows mean that another
-- one was first, or the server is in a state that does not allow it.
UPDATE servers SET task_state = sqlc.arg(task), current_operation = sqlc.arg(operation_id), updated_at = now(), resume_at = NULL
WHERE id = sqlc.arg(id) AND vm_state = sqlc.arg(from_vm_state) AND task_state = sqlc.arg(from_task_state)
    AND deleted_at IS NULL AND (locked_by IS NULL OR sqlc.arg(through_lock)::boolean);

-- name: TakeServerToDelete :execrows
-- A delete takes the server over from whatever holds it, except another delete.
UPDATE servers SET task_state = 'deleting', current_operation = sqlc.arg(operation_id), updated_at = now(), resume_at = NULL
WHERE id = sqlc.arg(id) AND task_state <> 'deleting'
    AND deleted_at IS NULL AND (locked_by IS NULL OR sqlc.arg(through_lock)::boolean);

-- name: ResetServerState :execrows
-- The running operation, if there is one, loses the server.
UPDATE servers SET vm_state = $2, task_state = '', current_operation = '', updated_at = now(), resume_at = NULL WHERE id = $1 AND deleted_at IS NULL;

-- name: SetServerLock :execrows
UPDATE servers SET locked_by = $2, locked_reason = $3, updated_at = now() WHERE id = $1 AND deleted_at IS NULL;

-- name: UpdateServer :execrows
UPDATE servers SET name = coalesce(sqlc.narg(name), name), hostname = coalesce(sqlc.narg(hostname), hostname),
    description = CASE WHEN sqlc.arg(describe)::boolean THEN sqlc.narg(description) ELSE description END,
    disk_config = coalesce(sqlc.narg(disk_config), disk_config), access_ip_v4 = coalesce(sqlc.narg(access_ip_v4), access_ip_v4),
    access_ip_v6 = coalesce(sqlc.narg(access_ip_v6), access_ip_v6), updated_at = now()
WHERE id = sqlc.arg(id) AND deleted_at IS NULL;

-- name: LockServerRow :one
SELECT * FROM servers WHERE id = $1 AND deleted_at IS NULL FOR UPDATE;

-- name: SetServerMetadata :exec
UPDATE servers SET metadata = $2, updated_at = now() WHERE id = $1;

-- name: SetServerTags :exec
UPDATE servers SET tags = $2, updated_at = now() WHERE id = $1;

-- name: ZoneNames :many
SELECT DISTINCT z.zone::text AS zone FROM host_zones z ORDER BY 1;

-- name: NetworkIDs :many
-- The networks that at least one host can attach for a project, each as most hosts write it, and how many
-- have it. One that any host limits to other projects is not for this one (compute.PrivateNetworks). A host
-- that was forgotten or revoked (HostsWithUse) has no say.
WITH known AS (
    SELECT h.id, h.networks, h.network_projects FROM hosts h
    WHERE h.forgotten_at IS NULL
        AND NOT coalesce((SELECT bool_and(k.revoked_at IS NOT NULL) FROM host_certificates k WHERE k.host_id = h.id), false)
), others AS (
    SELECT lower(p.id) AS id
    FROM known o, jsonb_each(CASE WHEN jsonb_typeof(o.network_projects) = 'object' THEN o.network_projects ELSE '{}' END) AS p (id, projects)
    WHERE NOT p.projects @> to_jsonb(sqlc.arg(project_id)::text)
)
SELECT mode() WITHIN GROUP (ORDER BY n.written)::text AS id, count(DISTINCT n.host) AS hosts
FROM (SELECT DISTINCT h.id AS host, unnest(h.networks) AS written FROM known h) n
WHERE lower(n.written) NOT IN (SELECT o.id FROM others o)
GROUP BY lower(n.written) ORDER BY 1;

-- name: TakeMAC :execrows
-- Gives a server a MAC address; 0 rows: another one has it.
INSERT INTO server_macs (mac, server_id) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: ServerOperations :many
-- The trail of a server, the newest first, without the arguments: those of rebuilds may have a server's metadata each (H4).
SELECT id, number, server_id, kind, project_id, user_id, credential_id, '{}'::jsonb AS arguments, state, message, accepted_at, started_at,
    finished_at, updated_at, subject_kind, subject_id, looked_at FROM operations
WHERE server_id = sqlc.arg(server_id) AND (sqlc.narg(below)::bigint IS NULL OR number < sqlc.narg(below))
    AND (sqlc.narg(since)::timestamptz IS NULL OR updated_at >= sqlc.narg(since))
    AND (sqlc.narg(until)::timestamptz IS NULL OR updated_at <= sqlc.narg(until))
ORDER BY number DESC LIMIT sqlc.arg(most);

-- name: ServerOperation :one
SELECT * FROM operations WHERE id = $1 AND server_id = $2;

-- name: OperationEvents :many
SELECT * FROM operation_events WHERE operation_id = ANY(sqlc.arg(operations)::text[]) ORDER BY number DESC;

-- name: PurgeableServers :many
-- Servers deleted before a time, the first ones first, of which nothing waits to be removed.
SELECT s.id FROM servers s
WHERE s.deleted_at < sqlc.arg(before)::timestamptz
    AND NOT EXISTS (SELECT FROM ledger l WHERE l.owner_kind = 'server' AND l.owner_id = s.id AND l.state NOT IN ('released', 'handed_over'))
    AND NOT EXISTS (SELECT FROM operations o WHERE o.server_id = s.id AND o.state IN ('accepted', 'running'))
    AND s.id <> ALL (sqlc.arg(without)::uuid[])
ORDER BY s.deleted_at LIMIT sqlc.arg(most) FOR UPDATE OF s SKIP LOCKED;

-- name: PurgeServerEvents :exec
DELETE FROM operation_events WHERE operation_id IN (SELECT id FROM operations WHERE server_id = ANY (sqlc.arg(ids)::uuid[]));

-- name: PurgeServerOperations :exec
DELETE FROM operations WHERE server_id = ANY (sqlc.arg(ids)::uuid[]);

-- name: PurgeServerDisks :exec
DELETE FROM server_disks WHERE server_id = ANY (sqlc.arg(ids)::uuid[]);

-- name: PurgeServerSystemMetadata :exec
DELETE FROM server_system_metadata WHERE server_id = ANY (sqlc.arg(ids)::uuid[]);

-- name: PurgeServers :exec
DELETE FROM servers WHERE id = ANY (sqlc.arg(ids)::uuid[]);
