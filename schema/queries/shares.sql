-- name: ServerShares :many
-- A server's shares in the order in which they were attached.
SELECT * FROM server_shares WHERE server_id = $1 ORDER BY created_at, id;

-- name: GetServerShare :one
SELECT * FROM server_shares WHERE server_id = $1 AND share_id = $2;

-- name: CountServerShares :one
SELECT count(*) FROM server_shares WHERE server_id = $1;

-- name: AttachShare :exec
INSERT INTO server_shares (id, server_id, share_id, status, tag, share_proto, export_location) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: SetShareStatus :execrows
-- By an operation, which knows better than a look before it. Why a share was taken away is told as long as it is in error.
UPDATE server_shares SET status = $3, updated_at = now(), missed_at = NULL, held_at = NULL,
    lost = CASE WHEN $3 = 'error' THEN lost ELSE '' END, lost_at = CASE WHEN $3 = 'error' THEN lost_at END
WHERE server_id = $1 AND share_id = $2;

-- name: ShareIsSeen :exec
-- An operation has just seen a share and the access of a server's host: that is true for all of the host's servers. Rows that
-- others have locked they look after themselves.
UPDATE server_shares SET missed_at = NULL, held_at = NULL WHERE id IN (
    SELECT m.id FROM server_shares m JOIN servers s ON s.id = m.server_id
    WHERE m.share_id = sqlc.arg(share_id) AND m.missed_at IS NOT NULL AND s.host_id = (SELECT o.host_id FROM servers o WHERE o.id = sqlc.arg(server_id))
    FOR UPDATE OF m SKIP LOCKED);

-- name: SharesAreUnwanted :exec
-- Their server is to be deleted.
UPDATE server_shares SET status = 'detaching', updated_at = now(), missed_at = NULL, held_at = NULL, lost = '', lost_at = NULL
WHERE id IN (SELECT m.id FROM server_shares m WHERE m.server_id = $1 AND m.status <> 'detaching' ORDER BY m.id FOR UPDATE);

-- name: DetachShare :exec
DELETE FROM server_shares WHERE server_id = $1 AND share_id = $2;

-- name: DetachShares :exec
DELETE FROM server_shares WHERE server_id = $1;

-- name: ShareWaits :one
-- Whether something that a server had of a share is still to be removed.
SELECT EXISTS (SELECT FROM ledger WHERE kind IN ('share_mount', 'share_access') AND name = $1 AND state <> 'released')::boolean;

-- name: HostOffers :one
-- What a host offers to the servers that it has, as it last reported itself.
SELECT address, share_address, traits FROM hosts WHERE id = $1;

-- name: HostsBeforeShares :one
-- How many hosts run a release that knows of no shares: those that tell none (SH-26).
SELECT count(*) FROM hosts WHERE release = '' AND forgotten_at IS NULL;

-- name: DueShares :many
-- Attachments that are to be looked at, those first that waited longest: of servers that nobody is
-- at work on. Those in error are looked at by the next start.
SELECT m.id, m.server_id, m.share_id, m.share_proto, m.missed_at, s.project_id, s.host_id, coalesce(CASE m.share_proto WHEN 'NFS' THEN h.share_address ELSE h.address END, '')::text AS address, now()::timestamptz AS read_at
FROM server_shares m JOIN servers s ON s.id = m.server_id LEFT JOIN hosts h ON h.id = s.host_id
WHERE m.look_at <= now() AND m.status IN ('inactive', 'active') AND s.current_operation = '' AND s.deleted_at IS NULL
ORDER BY m.look_at, s.project_id, m.share_id, m.id LIMIT sqlc.arg(most);

-- name: ShareIsThere :exec
-- seen_at is when the look began; NULL: it could not tell yet.
UPDATE server_shares SET missed_at = NULL, held_at = NULL, seen_at = coalesce(sqlc.narg(seen_at)::timestamptz, seen_at), look_at = sqlc.arg(look_at)
WHERE id = ANY(sqlc.arg(ids)::uuid[]);

-- name: ShareIsMissed :exec
-- Unless somebody has been at work on the server since it was read.
UPDATE server_shares m SET missed_at = coalesce(m.missed_at, now()), look_at = now() + make_interval(secs => sqlc.arg(again)::float8) FROM servers s
WHERE m.id = ANY(sqlc.arg(ids)::uuid[]) AND s.id = m.server_id AND s.current_operation = '' AND s.deleted_at IS NULL
    AND coalesce(m.updated_at, m.created_at) < sqlc.arg(read_at)::timestamptz AND m.status IN ('inactive', 'active');

-- name: ShareIsHeld :exec
UPDATE server_shares SET held_at = coalesce(held_at, now()), look_at = sqlc.arg(look_at)
WHERE id = ANY(sqlc.arg(ids)::uuid[]) AND missed_at IS NOT NULL AND status IN ('inactive', 'active');

-- name: LookAtSharesLater :exec
UPDATE server_shares SET look_at = now() + make_interval(secs => sqlc.arg(again)::float8) WHERE id = ANY(sqlc.arg(ids)::uuid[]);

-- name: CountMissed :one
-- Of the shares that are watched: how many there are, how many are missed or were taken away lately, and how many looks found
-- that began since a moment.
SELECT count(*) AS watched, count(*) FILTER (WHERE gone) AS gone,
    count(*) FILTER (WHERE NOT gone AND seen_at >= sqlc.arg(since)::timestamptz) AS seen
FROM (
    SELECT m.share_id, max(m.seen_at) AS seen_at,
        bool_or(m.missed_at IS NOT NULL OR m.lost_at IS NOT NULL)::boolean AS gone
    FROM server_shares m JOIN servers s ON s.id = m.server_id
    WHERE s.deleted_at IS NULL AND (m.status IN ('inactive', 'active') OR m.lost_at > now() - make_interval(secs => sqlc.arg(lately)::float8))
    GROUP BY m.share_id
) w;

-- name: LockShareAtRest :one
-- The attachment, if nobody has been at work on its server since it was read, nor seen it; the server stays locked.
SELECT sqlc.embed(m), s.vm_state, s.power_state FROM servers s JOIN server_shares m ON m.server_id = s.id
WHERE m.id = sqlc.arg(id) AND s.current_operation = '' AND s.deleted_at IS NULL
    AND coalesce(m.updated_at, m.created_at) < sqlc.arg(read_at)::timestamptz AND m.status IN ('inactive', 'active')
    AND m.missed_at = sqlc.arg(missed_at)::timestamptz
FOR UPDATE OF s, m;

-- name: ShareIsLost :exec
UPDATE server_shares SET status = $2, updated_at = now(), missed_at = NULL, held_at = NULL, lost = $3, lost_at = now() WHERE id = $1;

-- name: SharesRefused :exec
-- No credential lets strongroom look at the shares of a project.
INSERT INTO share_refusals (project_id, refused_at, offer_at) VALUES ($1, clock_timestamp(), clock_timestamp() + interval '1 minute')
ON CONFLICT (project_id) DO UPDATE SET refused_at = clock_timestamp();

-- name: OfferRefused :exec
-- The credential of a passing request, where there was one, could not look, either: it is followed by another one after a
-- time that doubles.
UPDATE share_refusals r SET offers = r.offers + 1, offer_at = clock_timestamp() + least(interval '1 minute' * 2 ^ least(r.offers + 1, 11), interval '1 day')
FROM credentials c
WHERE r.project_id = sqlc.arg(project_id) AND c.project_id = r.project_id AND c.offered AND c.created_at <= sqlc.arg(read_at)::timestamptz;

-- name: SeesOtherShares :one
-- Whether a look since a moment found other shares of a project than those of some attachments.
SELECT EXISTS (SELECT FROM server_shares m JOIN servers s ON s.id = m.server_id
    WHERE s.project_id = sqlc.arg(project_id) AND s.deleted_at IS NULL AND m.seen_at >= sqlc.arg(since)::timestamptz
        AND m.share_id NOT IN (SELECT share_id FROM server_shares WHERE id = ANY(sqlc.arg(ids)::uuid[])))::boolean;

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

-- name: SharesOfOtherSeals :many
-- Attachments whose export location is sealed otherwise than what begins so.
SELECT * FROM server_shares WHERE substring(export_location FOR length(sqlc.arg(prefix)::bytea)) <> sqlc.arg(prefix)::bytea ORDER BY id;

-- name: SealShareAnew :execrows
-- No change of the attachment. 0 rows: somebody else did it, or it is detached.
UPDATE server_shares SET export_location = sqlc.arg(sealed) WHERE id = sqlc.arg(id) AND export_location = sqlc.arg(was);
