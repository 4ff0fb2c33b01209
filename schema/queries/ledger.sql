-- name: IntendThing :exec
-- A row is written before its thing is made. An open row of the same thing stays as it
-- is: the step runs a second time. A thing that the same operation has removed may be made
-- again: an undo that restarts a server does that. A thing that waits to be removed and is
-- now made by another operation is that one's, so that nothing is released under it. That a
-- domain runs is always the thing of the operation that is about to start it: its undo, or
-- the janitor later, stops what it started.
WITH again AS (
    UPDATE ledger l SET state = 'intended', reason = '', released_at = NULL, updated_at = now()
    WHERE l.id = $1 AND l.state = 'released'
        AND NOT EXISTS (SELECT FROM ledger o WHERE o.kind = l.kind AND o.place = l.place AND o.name = l.name AND o.state <> 'released')
    RETURNING l.id
)
INSERT INTO ledger (id, kind, place, name, reference, owner_kind, owner_id, operation_id, credential_id, project_id, user_id)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11 WHERE NOT EXISTS (SELECT FROM again)
ON CONFLICT (kind, place, name) WHERE state <> 'released' DO UPDATE
    SET operation_id = EXCLUDED.operation_id, credential_id = EXCLUDED.credential_id, project_id = EXCLUDED.project_id,
        user_id = EXCLUDED.user_id, state = 'intended', reason = '', blocked_by = '', updated_at = now()
    WHERE (ledger.kind = 'running_domain' OR ledger.state = 'waiting') AND ledger.operation_id <> EXCLUDED.operation_id;

-- name: StillWaiting :many
-- Those of some things that still wait to be removed, each with its operation.
SELECT id, operation_id FROM ledger WHERE id = ANY(sqlc.arg(ids)::uuid[]) AND state = 'waiting' FOR UPDATE;

-- name: PresentThing :exec
UPDATE ledger SET state = 'present', reference = $4, blocked_by = '', updated_at = now()
WHERE kind = $1 AND place = $2 AND name = $3 AND state <> 'released';

-- name: ReleaseThing :exec
UPDATE ledger SET state = 'released', blocked_by = '', released_at = now(), updated_at = now()
WHERE kind = $1 AND place = $2 AND name = $3 AND state <> 'released';

-- name: HandOverThing :exec
UPDATE ledger SET state = 'handed_over', blocked_by = '', updated_at = now()
WHERE kind = $1 AND place = $2 AND name = $3 AND state <> 'released';

-- name: WaitThing :exec
-- A thing that is to be removed and cannot be yet. After an error or a refusal it is tried
-- again at growing intervals; one that waits for a host or for other things is due as
-- soon as DueThings sees that these are there or gone. A host that says that it lives
-- and takes no work is asked again after a minute.
UPDATE ledger SET state = 'waiting', blocked_by = sqlc.arg(blocked_by), reason = sqlc.arg(reason),
    waiting_since = CASE WHEN state = 'waiting' THEN waiting_since ELSE now() END,
    tries = tries + CASE WHEN sqlc.arg(blocked_by) IN ('credential', 'error') THEN 1 ELSE 0 END,
    try_at = now() + CASE sqlc.arg(blocked_by)
        WHEN 'time' THEN make_interval(secs => sqlc.arg(late)::float8)
        WHEN 'host' THEN CASE WHEN state = 'waiting' THEN interval '1 minute' ELSE interval '0' END
        WHEN 'things' THEN interval '0'
        ELSE least(interval '15 seconds' * power(2, least(tries, 10)), interval '1 hour') END,
    updated_at = now()
WHERE kind = sqlc.arg(kind) AND place = sqlc.arg(place) AND name = sqlc.arg(name) AND state <> 'released';

-- name: ThingsOf :many
-- What an owner has; what was handed over to a user is not the owner's.
SELECT sqlc.embed(l), coalesce(h.name, '')::text AS host_name
FROM ledger l LEFT JOIN hosts h ON h.id = l.host_id
WHERE l.owner_kind = $1 AND l.owner_id = $2 AND l.state NOT IN ('released', 'handed_over') ORDER BY l.created_at, l.id;

-- name: HandedOverThings :many
SELECT * FROM ledger WHERE owner_kind = $1 AND owner_id = $2 AND state = 'handed_over' ORDER BY created_at, id;

-- name: DueThings :many
-- What may be removed now: its time has come, or somebody of its project offered a
-- credential that it was not tried with. At most per_place things of a service and per_host
-- of a host, so that none starves the others; those of under_way count, and are left out.
-- gone_first has "<kind> <kind that goes before it>"; things on a
-- host that is forced down, forgotten or deleted are not waited for. A file that another host has on
-- record, on storage that both share, is that one's: it is not removed here.
SELECT sqlc.embed(d), coalesce(due.host_name, '')::text AS host_name
FROM (
    SELECT l.id, l.host_id, h.name AS host_name, row_number() OVER (PARTITION BY l.place ORDER BY l.try_at, l.id) AS nth
    FROM ledger l LEFT JOIN hosts h ON h.id = l.host_id
    WHERE l.state = 'waiting'
        AND (sqlc.narg(project_id)::text IS NULL OR l.project_id = sqlc.narg(project_id))
        AND (l.try_at <= now() OR l.blocked_by = 'credential' AND EXISTS (
            SELECT FROM credentials c WHERE c.project_id = l.project_id AND c.offered AND c.created_at > l.updated_at))
        AND (l.host_id IS NULL
            OR NOT h.forced_down AND h.forgotten_at IS NULL AND h.last_seen > now() - make_interval(secs => sqlc.arg(host_timeout)::float8))
        AND NOT EXISTS (SELECT FROM servers s WHERE l.owner_kind = 'server' AND s.id = l.owner_id AND s.current_operation <> '')
        AND NOT EXISTS (SELECT FROM operations o
            WHERE o.subject_kind = l.owner_kind AND o.subject_id = l.owner_id AND o.state IN ('accepted', 'running'))
        AND NOT EXISTS (
            SELECT FROM ledger g LEFT JOIN hosts gh ON gh.id = g.host_id
            WHERE g.owner_kind = l.owner_kind AND g.owner_id = l.owner_id AND g.state = 'waiting'
                AND (g.place = l.place OR l.host_id IS NULL)
                AND (l.kind || ' ' || g.kind) = ANY(sqlc.arg(gone_first)::text[])
                AND NOT coalesce(gh.forced_down OR gh.forgotten_at IS NOT NULL, g.host_id IS NOT NULL))
        AND NOT (l.kind IN ('disk_file', 'key_slot') AND h.disk_storage <> '' AND EXISTS (
            SELECT FROM hosts p JOIN ledger u ON u.place = p.id::text
            WHERE p.disk_storage = h.disk_storage AND p.id <> h.id AND u.kind = l.kind AND u.name = l.name AND u.state IN ('intended', 'present')))
) due JOIN ledger d ON d.id = due.id
WHERE nth <= CASE WHEN due.host_id IS NULL THEN sqlc.arg(per_place)::int ELSE sqlc.arg(per_host)::int END
    AND (d.id = ANY(sqlc.arg(under_way)::uuid[])) IS NOT TRUE
ORDER BY d.try_at, d.id LIMIT sqlc.arg(most)::int;


-- name: DiskKeys :many
-- The secrets of the disks of all servers, with their rows on the ledger.
SELECT sqlc.embed(d), sqlc.embed(l), s.current_operation
FROM server_disks d JOIN servers s ON s.id = d.server_id
    JOIN ledger l ON l.owner_kind = 'server' AND l.owner_id = s.id AND l.kind = 'key_secret' AND l.state = 'present'
        AND l.reference = d.encryption_secret_uuid::text AND l.name NOT LIKE 'strongroom legacy key %' -- that Nova made
WHERE s.deleted_at IS NULL ORDER BY s.number, d.role, d.index;

-- name: FirstOperation :one
-- The operation that made a server, as far as it is still on record.
SELECT coalesce((SELECT id FROM operations WHERE server_id = $1 ORDER BY number LIMIT 1), '')::text;

-- name: LockIdleServer :one
-- A server that no operation has and none gets meanwhile, and that was not changed since.
SELECT id FROM servers WHERE id = sqlc.arg(id) AND deleted_at IS NULL AND current_operation = ''
    AND (sqlc.narg(since)::timestamptz IS NULL OR updated_at IS NULL OR updated_at <= sqlc.narg(since)) FOR UPDATE;

-- name: DatabaseTime :one
SELECT now()::timestamptz;

-- name: ServerExists :one
-- Whether a server is on record and not deleted.
SELECT EXISTS (SELECT FROM servers WHERE id = $1 AND deleted_at IS NULL)::boolean AS is_known;

-- name: ReplaceDiskSecret :execrows
UPDATE server_disks SET encryption_secret_uuid = sqlc.arg(now) WHERE id = sqlc.arg(id) AND encryption_secret_uuid = sqlc.arg(was);
