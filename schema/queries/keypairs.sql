-- name: ListKeypairs :many
SELECT * FROM keypairs
WHERE user_id = sqlc.arg(user_id) AND (sqlc.narg(marker)::text IS NULL OR name > sqlc.narg(marker))
ORDER BY name LIMIT sqlc.arg(page);

-- name: GetKeypair :one
SELECT * FROM keypairs WHERE user_id = $1 AND name = $2;

-- name: InsertKeypair :one
INSERT INTO keypairs (user_id, name, type, public_key, fingerprint) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT DO NOTHING RETURNING *;

-- name: CountKeypairs :one
SELECT count(*) FROM keypairs WHERE user_id = $1;

-- name: DeleteKeypair :execrows
DELETE FROM keypairs WHERE user_id = $1 AND name = $2;
