-- name: LegacyServers :many
-- Servers whose disks do not have their legacy key yet, the oldest first.
SELECT id, number FROM servers WHERE ephemeral_key_uuid IS NOT NULL AND deleted_at IS NULL AND number > sqlc.arg(after)
ORDER BY number LIMIT sqlc.arg(most);

-- name: LockLegacyKey :one
-- A server's legacy key, that nobody else moves until the transaction ends. No row:
-- it has none, any more.
SELECT ephemeral_key_uuid FROM servers WHERE id = $1 AND ephemeral_key_uuid IS NOT NULL AND deleted_at IS NULL FOR NO KEY UPDATE;

-- name: SetDiskEncryption :exec
UPDATE server_disks SET encrypted = true, encryption_secret_uuid = $2, encryption_format = $3, encryption_options = $4 WHERE id = $1;

-- name: ClearLegacyKey :exec
UPDATE servers SET ephemeral_key_uuid = NULL, updated_at = now() WHERE id = $1;
