-- name: MoveServer :execrows
-- What a server is from here on: after a resize or a migration, and after one was reverted.
UPDATE servers v SET flavor = sqlc.arg(flavor), tpm = sqlc.narg(tpm), required_traits = sqlc.arg(required_traits),
    forbidden_traits = sqlc.arg(forbidden_traits), host_id = sqlc.arg(host_id),
    availability_zone = coalesce((SELECT z.zone FROM host_zones z WHERE z.host_id = sqlc.arg(host_id)), v.availability_zone),
    disk_config = coalesce(sqlc.narg(disk_config), v.disk_config), former = sqlc.narg(former),
    confirm_at = now() + make_interval(secs => sqlc.narg(confirm_seconds)::float8), updated_at = now()
WHERE v.id = sqlc.arg(id) AND v.current_operation = sqlc.arg(operation_id);

-- name: ForgetFormer :execrows
-- From here on a server cannot be reverted.
UPDATE servers SET former = NULL, confirm_at = NULL, updated_at = now()
WHERE id = sqlc.arg(id) AND current_operation = sqlc.arg(operation_id);

-- name: PutServerDisk :exec
-- A disk as it is from here on. Its tag stays.
INSERT INTO server_disks (id, server_id, role, index, device_name, bus, size_mb, boot_index, guest_format, image_id, source, file, encrypted,
    encryption_secret_uuid, backing_encryption_secret_uuid, encryption_format, encryption_options, whole)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
ON CONFLICT (id) DO UPDATE SET size_mb = excluded.size_mb, image_id = excluded.image_id, source = excluded.source, file = excluded.file,
    encryption_secret_uuid = excluded.encryption_secret_uuid, backing_encryption_secret_uuid = excluded.backing_encryption_secret_uuid,
    encryption_options = excluded.encryption_options, whole = excluded.whole;

-- name: DeleteOtherDisks :exec
DELETE FROM server_disks WHERE server_id = sqlc.arg(server_id) AND id <> ALL (sqlc.arg(ids)::uuid[]);

-- name: DeleteOtherClaims :exec
DELETE FROM claims WHERE server_id = $1 AND operation_id <> $2;

-- name: DueConfirms :many
-- Servers whose time to be reverted is over, the oldest first. Not those of which a revert failed and the TPM state is still to be
-- put back (TPMWaits): a confirm would give up the copy.
SELECT id, project_id, user_id FROM servers s
WHERE confirm_at <= now() AND deleted_at IS NULL AND vm_state = 'resized' AND task_state = '' AND current_operation = ''
    AND NOT EXISTS (SELECT FROM ledger l WHERE l.owner_kind = 'server' AND l.owner_id = s.id AND l.kind = 'tpm_state'
        AND l.reference <> '' AND l.state = 'waiting')
ORDER BY confirm_at LIMIT sqlc.arg(most);

-- name: PostponeConfirm :exec
-- When a confirmation that fails is tried again.
UPDATE servers SET confirm_at = now() + interval '1 hour' WHERE id = $1;

-- name: PutMigration :exec
-- A move of a server, as soon as it is known where to.
INSERT INTO migrations (uuid, operation_id, server_id, type, status, source, source_id, destination, destination_id, address, old_flavor, new_flavor, project_id, user_id)
SELECT sqlc.arg(uuid), o.id, s.id, sqlc.arg(type), sqlc.arg(status), coalesce(src.name, ''), src.id, dst.name, dst.id, dst.address, s.flavor->>'id',
    sqlc.arg(new_flavor), o.project_id, o.user_id
FROM operations o JOIN servers s ON s.id = o.server_id LEFT JOIN hosts src ON src.id = s.host_id
JOIN hosts dst ON dst.id = sqlc.arg(destination)
WHERE o.id = sqlc.arg(operation_id)
ON CONFLICT (operation_id) DO UPDATE SET destination = excluded.destination, destination_id = excluded.destination_id, address = excluded.address, updated_at = now();

-- name: SetMigrationStatus :exec
UPDATE migrations SET status = sqlc.arg(status), updated_at = now()
WHERE operation_id = sqlc.arg(operation_id) AND status NOT IN ('error', 'confirmed', 'reverted', 'done', 'completed', 'failed', 'cancelled');

-- name: ListMigrations :many
-- Migrations as the API lists them, the newest first.
SELECT m.* FROM migrations m JOIN servers s ON s.id = m.server_id
WHERE (sqlc.narg(server_id)::uuid IS NULL OR m.server_id = sqlc.narg(server_id))
    AND (sqlc.narg(status)::text IS NULL OR m.status = sqlc.narg(status))
    AND (sqlc.narg(host)::text IS NULL OR sqlc.narg(host) IN (m.source, m.destination))
    AND (sqlc.narg(source)::text IS NULL OR m.source = sqlc.narg(source))
    AND (sqlc.narg(type)::text IS NULL OR m.type = sqlc.narg(type))
    AND (sqlc.narg(user_id)::text IS NULL OR m.user_id = sqlc.narg(user_id))
    AND (sqlc.narg(project_id)::text IS NULL OR m.project_id = sqlc.narg(project_id))
    AND (sqlc.narg(since)::timestamptz IS NULL OR m.updated_at >= sqlc.narg(since))
    AND (sqlc.narg(until)::timestamptz IS NULL OR m.updated_at <= sqlc.narg(until))
    AND (sqlc.narg(below)::bigint IS NULL OR m.number < sqlc.narg(below))
ORDER BY m.number DESC LIMIT sqlc.arg(most);

-- name: MigrationByUUID :one
SELECT * FROM migrations WHERE uuid = $1;

-- name: MigrationOfServer :one
SELECT * FROM migrations WHERE server_id = $1 AND number = $2;

-- name: RunsElsewhere :one
-- Whether another host than a server's own may still run it: it did not answer, or the operation
-- that started it there was cut off. Not one whose operator had said that it is fenced, which stops the
-- guest should it come back (Evacuated).
SELECT EXISTS (SELECT FROM ledger l
    WHERE l.owner_kind = 'server' AND l.owner_id = sqlc.arg(server_id)::uuid AND l.kind = 'running_domain' AND l.state NOT IN ('released', 'handed_over')
        AND l.host_id IS DISTINCT FROM (SELECT s.host_id FROM servers s WHERE s.id = sqlc.arg(server_id)::uuid)
        AND NOT EXISTS (SELECT FROM migrations m
            WHERE m.operation_id = l.operation_id AND m.destination_id = l.host_id AND m.fenced_at IS NOT NULL))::boolean AS may;

-- name: DecideKept :exec
-- The copies that are kept of a server's TPM state are not put back any more when they go.
UPDATE ledger SET reference = '', updated_at = now()
WHERE owner_kind = 'server' AND owner_id = sqlc.arg(server_id)::uuid AND kind = 'tpm_state'
    AND reference <> '' AND state <> 'released';

-- name: TPMWaits :one
-- Whether a copy of a server's TPM state is still to be put back.
SELECT EXISTS (SELECT FROM ledger WHERE owner_kind = 'server' AND owner_id = sqlc.arg(server_id)::uuid AND kind = 'tpm_state'
    AND reference <> '' AND state = 'waiting')::boolean AS waits;

-- name: EndMigration :exec
-- The end of a migration whose operation did not succeed. A live one that was to be aborted was
-- cancelled; one that lost its server once that had moved has moved.
UPDATE migrations SET updated_at = now(), status = CASE WHEN type <> 'live-migration' THEN 'error'
    WHEN status = 'post-migrating' THEN 'completed'
    WHEN wish = 'abort' OR sqlc.arg(cancelled)::boolean THEN 'cancelled' ELSE 'failed' END
WHERE operation_id = sqlc.arg(operation_id) AND status NOT IN ('error', 'confirmed', 'reverted', 'done', 'completed', 'failed', 'cancelled');

-- name: LiveMigrations :many
-- The live migrations of a server that are under way.
SELECT * FROM migrations WHERE server_id = $1 AND type = 'live-migration' AND status IN ('queued', 'preparing', 'running', 'post-migrating')
ORDER BY number DESC;

-- name: WishOfMigration :execrows
-- What whoever asked for a live migration wishes while it is in one of the statuses. An abort stays.
UPDATE migrations SET wish = CASE WHEN wish = 'abort' THEN wish ELSE sqlc.arg(wish) END
WHERE number = sqlc.arg(number) AND type = 'live-migration' AND status = ANY (sqlc.arg(statuses)::text[]);

-- name: ReportMigration :one
-- How far a live migration is, as the host says that the server leaves, and what is wished of it.
UPDATE migrations m SET memory_total = sqlc.arg(memory_total), memory_remaining = sqlc.arg(memory_remaining),
    memory_processed = sqlc.arg(memory_processed), disk_total = sqlc.arg(disk_total), disk_remaining = sqlc.arg(disk_remaining),
    disk_processed = sqlc.arg(disk_processed)
FROM operations o, servers s
WHERE m.operation_id = sqlc.arg(operation_id) AND m.server_id = sqlc.arg(server_id) AND m.type = 'live-migration'
    AND o.id = m.operation_id AND o.state IN ('accepted', 'running') AND s.id = m.server_id AND s.host_id = sqlc.arg(host)::uuid
RETURNING m.wish;

-- name: UndecideMigration :exec
-- A decision on a move was not made: somebody may decide again.
UPDATE migrations m SET status = 'finished', updated_at = now()
FROM operations o JOIN servers s ON s.id = o.server_id
WHERE o.id = sqlc.arg(operation_id) AND o.kind IN ('confirmResize', 'revertResize') AND s.current_operation IN ('', o.id)
    AND m.operation_id = s.former->>'operation' AND m.status IN ('confirming', 'reverting');
