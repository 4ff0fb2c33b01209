-- name: PutSecretSum :exec
INSERT INTO secret_sums (server_id, secret_id, sealed)
SELECT s.id, sqlc.arg(secret_id), sqlc.arg(sealed) FROM servers s WHERE s.id = sqlc.arg(server_id) AND s.deleted_at IS NULL
ON CONFLICT (server_id, secret_id) DO UPDATE SET sealed = EXCLUDED.sealed;

-- name: GetSecretSum :one
SELECT sealed FROM secret_sums WHERE server_id = $1 AND secret_id = $2;

-- name: DeleteSecretSums :exec
DELETE FROM secret_sums WHERE server_id = $1;

-- name: DeleteOldSecretSums :exec
-- Those of secrets that the server has no more, and that no operation has made for it: of images of it, and of keys before a rotation.
DELETE FROM secret_sums n WHERE n.server_id = $1
    AND NOT EXISTS (SELECT FROM server_disks d WHERE d.server_id = n.server_id AND n.secret_id IN (d.encryption_secret_uuid, d.backing_encryption_secret_uuid))
    AND NOT EXISTS (SELECT FROM servers s WHERE s.id = n.server_id AND n.secret_id = s.ephemeral_key_uuid)
    AND NOT EXISTS (SELECT FROM ledger l WHERE l.kind = 'key_secret' AND l.reference = n.secret_id::text AND l.state NOT IN ('released', 'handed_over'));

-- name: SumsOfOtherSeals :many
-- So many sums, from one on, that are sealed otherwise than what begins with these five bytes.
SELECT * FROM secret_sums WHERE (substring(sealed FOR 5) < sqlc.arg(prefix)::bytea OR substring(sealed FOR 5) > sqlc.arg(prefix)::bytea)
    AND (server_id, secret_id) > (sqlc.arg(after_server)::uuid, sqlc.arg(after_secret)::uuid)
ORDER BY server_id, secret_id LIMIT sqlc.arg(most);

-- name: SealSumAnew :execrows
-- 0 rows: somebody else did it, or the server is gone.
UPDATE secret_sums SET sealed = sqlc.arg(sealed) WHERE server_id = sqlc.arg(server_id) AND secret_id = sqlc.arg(secret_id) AND sealed = sqlc.arg(was);
