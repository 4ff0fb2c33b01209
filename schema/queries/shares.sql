-- name: ServerShares :many
-- A server's shares in the order in which they were attached.
SELECT * FROM server_shares WHERE server_id = $1 ORDER BY created_at, id;

-- name: CountServerShares :one
SELECT count(*) FROM server_shares WHERE server_id = $1;

-- name: AttachShare :exec
INSERT INTO server_shares (id, server_id, share_id, status, tag, share_proto, export_location) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: SetShareStatus :execrows
UPDATE server_shares SET status = $3, updated_at = now() WHERE server_id = $1 AND share_id = $2;

-- name: DetachShare :exec
DELETE FROM server_shares WHERE server_id = $1 AND share_id = $2;

-- name: DetachShares :exec
DELETE FROM server_shares WHERE server_id = $1;

-- name: ShareWaits :one
-- Whether something that a server had of a share is still to be removed.
SELECT EXISTS (SELECT FROM ledger WHERE kind IN ('share_mount', 'share_access') AND name = $1 AND state <> 'released')::boolean;

-- name: HostOfShares :one
-- What an attachment must know of its server's host. The traits are as it last reported itself.
SELECT address, traits FROM hosts WHERE id = $1;

-- name: HostsBeforeShares :one
-- How many hosts run a release that knows of no shares: those that tell none (SH-26).
SELECT count(*) FROM hosts WHERE release = '' AND forgotten_at IS NULL;
