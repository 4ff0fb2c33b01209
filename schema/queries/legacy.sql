-- name: LegacyServers :many
-- Servers whose disks do not have their legacy key yet, the oldest first.
SELECT id, number FROM servers WHERE ephemeral_key_uuid IS NOT NULL AND deleted_at IS NULL AND number > sqlc.arg(after)
ORDER BY number LIMIT sqlc.arg(most);

-- name: CountLegacyDisks :one
-- Disks with the legacy encryption, with its key or still without.
SELECT count(*) FROM server_disks d JOIN servers s ON s.id = d.server_id
WHERE s.deleted_at IS NULL AND (d.encryption_format = 'plain' OR s.ephemeral_key_uuid IS NOT NULL);

-- name: LockLegacyKey :one
-- A server's legacy key, that nobody else moves until the transaction ends. No row:
-- it has none, any more.
SELECT ephemeral_key_uuid FROM servers WHERE id = $1 AND ephemeral_key_uuid IS NOT NULL AND deleted_at IS NULL FOR NO KEY UPDATE;

-- name: LegacyKeyPresent :exec
-- A key that was put on the ledger now is its server's. That of an import is Nova's for as long as a
-- volume is; where an import before this one took all of them over, it is the server's, however this one ends.
UPDATE ledger k SET state = 'present', updated_at = now() WHERE k.kind = 'key_secret' AND k.place = $1 AND k.name = $2
    AND (k.state = 'intended' OR k.state = 'handed_over'
        AND EXISTS (SELECT FROM ledger v WHERE v.kind = 'disk_file' AND v.owner_kind = 'server' AND v.owner_id = k.owner_id AND v.state = 'present')
        AND NOT EXISTS (SELECT FROM ledger v WHERE v.kind = 'disk_file' AND v.owner_kind = 'server' AND v.owner_id = k.owner_id AND v.state = 'handed_over'));

-- name: SetDiskEncryption :exec
UPDATE server_disks SET encrypted = true, encryption_secret_uuid = $2, encryption_format = $3, encryption_options = $4 WHERE id = $1;

-- name: SetLegacyKey :exec
UPDATE servers SET ephemeral_key_uuid = $2, updated_at = now() WHERE id = $1;

-- name: ImportServerAgain :execrows
-- Lets another import have a server that one imported, or failed to. 0 rows: it was deleted, an
-- operation has it, or it is in use.
UPDATE servers SET task_state = sqlc.arg(task_state), current_operation = sqlc.arg(current_operation), updated_at = now()
WHERE servers.id = sqlc.arg(id) AND deleted_at IS NULL AND task_state = '' AND current_operation = '' AND vm_state IN ('error', 'stopped')
    AND EXISTS (SELECT FROM operations o WHERE o.server_id = servers.id AND o.kind = 'importLegacy');

-- name: ReleaseOtherLegacyKeys :exec
-- Hands back the keys of earlier imports of a server. They were Nova's: nothing removes them.
UPDATE ledger SET state = 'released', blocked_by = '', released_at = now(), updated_at = now()
WHERE kind = 'key_secret' AND owner_kind = 'server' AND owner_id = sqlc.arg(server_id)::uuid AND name LIKE 'strongroom legacy key %'
    AND reference <> sqlc.arg(key)::text AND state <> 'released';

-- name: ImportDisk :exec
INSERT INTO server_disks (id, server_id, role, index, device_name, bus, size_mb, boot_index, file, encryption_options)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: HandOverIntended :exec
UPDATE ledger SET state = 'handed_over', updated_at = now() WHERE kind = $1 AND place = $2 AND name = $3 AND state = 'intended';

-- name: DropServerDisks :exec
DELETE FROM server_disks WHERE server_id = $1;

-- name: ClearLegacyKey :exec
UPDATE servers SET ephemeral_key_uuid = NULL, updated_at = now() WHERE id = $1;
