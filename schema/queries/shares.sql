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

-- name: DueShares :many
-- Attachments that are to be looked at, those first that waited longest: of servers that nobody is
-- at work on. Those in error are looked at by the next start.
SELECT m.id, m.server_id, m.share_id, m.share_proto, m.missed_at, s.project_id, s.host_id, coalesce(h.address, '')::text AS address, now()::timestamptz AS read_at
FROM server_shares m JOIN servers s ON s.id = m.server_id LEFT JOIN hosts h ON h.id = s.host_id
WHERE m.look_at <= now() AND m.status IN ('inactive', 'active') AND s.current_operation = '' AND s.deleted_at IS NULL
ORDER BY m.look_at, s.project_id, m.id LIMIT sqlc.arg(most);

-- name: ShareIsThere :exec
UPDATE server_shares SET missed_at = NULL, look_at = now() + make_interval(secs => sqlc.arg(again)::float8) WHERE id = ANY(sqlc.arg(ids)::uuid[]);

-- name: ShareIsMissed :exec
UPDATE server_shares SET missed_at = coalesce(missed_at, now()), look_at = now() + make_interval(secs => sqlc.arg(again)::float8)
WHERE id = ANY(sqlc.arg(ids)::uuid[]);

-- name: LookAtSharesLater :exec
UPDATE server_shares SET look_at = now() + make_interval(secs => sqlc.arg(again)::float8) WHERE id = ANY(sqlc.arg(ids)::uuid[]);

-- name: LockShareAtRest :one
-- The attachment, if nobody has been at work on its server since it was read; the server stays locked.
SELECT sqlc.embed(m), s.vm_state, s.power_state FROM servers s JOIN server_shares m ON m.server_id = s.id
WHERE m.id = sqlc.arg(id) AND s.current_operation = '' AND s.deleted_at IS NULL
    AND coalesce(m.updated_at, m.created_at) < sqlc.arg(read_at)::timestamptz AND m.status IN ('inactive', 'active')
FOR UPDATE OF s, m;

-- name: SharesRefused :exec
-- No credential lets strongroom look at the shares of a project.
INSERT INTO share_refusals (project_id, refused_at) VALUES ($1, clock_timestamp()) ON CONFLICT (project_id) DO UPDATE SET refused_at = clock_timestamp();

-- name: SharesAllowed :exec
DELETE FROM share_refusals WHERE project_id = $1;

-- name: LookWithOffers :exec
-- Somebody of a project offered a credential since every other one was refused.
UPDATE server_shares SET look_at = now() WHERE status IN ('inactive', 'active') AND look_at > now() AND server_id IN (
    SELECT s.id FROM share_refusals r JOIN credentials c ON c.project_id = r.project_id AND c.offered AND c.created_at > r.refused_at
    JOIN servers s ON s.project_id = r.project_id AND s.deleted_at IS NULL);

-- name: ForgetRefusals :exec
-- Of projects whose servers have no shares any more.
DELETE FROM share_refusals r WHERE NOT EXISTS (
    SELECT FROM servers s JOIN server_shares m ON m.server_id = s.id WHERE s.project_id = r.project_id AND s.deleted_at IS NULL);
