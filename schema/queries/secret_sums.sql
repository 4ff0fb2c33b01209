-- name: PutSecretSum :exec
INSERT INTO secret_sums (server_id, secret_id, sealed) VALUES ($1, $2, $3)
ON CONFLICT (server_id, secret_id) DO UPDATE SET sealed = EXCLUDED.sealed;

-- name: GetSecretSum :one
SELECT sealed FROM secret_sums WHERE server_id = $1 AND secret_id = $2;

-- name: DeleteSecretSums :exec
DELETE FROM secret_sums WHERE server_id = $1;

-- name: SummedSecrets :many
-- Those of a server of whose passphrases there is a sum.
SELECT secret_id FROM secret_sums WHERE server_id = $1 ORDER BY secret_id;

-- name: SumsOfOtherSeals :many
-- Sums that are sealed otherwise than what begins with these five bytes. By two ranges, for each of which there is the index.
SELECT * FROM secret_sums WHERE substring(sealed FOR 5) < sqlc.arg(prefix)::bytea OR substring(sealed FOR 5) > sqlc.arg(prefix)::bytea
ORDER BY server_id, secret_id;

-- name: SealSumAnew :execrows
-- 0 rows: somebody else did it, or the server is gone.
UPDATE secret_sums SET sealed = sqlc.arg(sealed) WHERE server_id = sqlc.arg(server_id) AND secret_id = sqlc.arg(secret_id) AND sealed = sqlc.arg(was);
