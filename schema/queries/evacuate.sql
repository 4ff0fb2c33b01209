-- name: LockFenced :one
-- Whether a host is down by its operator's word, and has not reported itself for
-- host_timeout. Until the transaction ends no report of it is taken.
SELECT name, forced_down, (last_seen <= now() - make_interval(secs => sqlc.arg(host_timeout)::float8))::boolean AS silent
FROM hosts WHERE id = sqlc.arg(id) FOR UPDATE;

-- name: LeaveHost :exec
-- What a server has on a host that it leaves waits for that host. Its domain is among it, so
-- that it may still run there needs no row of its own.
UPDATE ledger SET state = CASE WHEN kind = 'running_domain' THEN 'released' ELSE 'waiting' END,
    blocked_by = CASE WHEN kind = 'running_domain' THEN '' ELSE 'host' END, reason = sqlc.arg(reason),
    waiting_since = CASE WHEN state = 'waiting' THEN waiting_since ELSE now() END, try_at = now(), updated_at = now(),
    released_at = CASE WHEN kind = 'running_domain' THEN now() END
WHERE owner_kind = 'server' AND owner_id = sqlc.arg(server_id)::uuid AND host_id = sqlc.arg(host_id)::uuid
    AND state NOT IN ('released', 'handed_over');

-- name: Evacuated :many
-- Servers that left a host while it was down, or are leaving it: they must not run there. since
-- is when that began: what was started there later runs there by right.
SELECT m.server_id, m.created_at AS since
FROM operations o JOIN migrations m ON m.operation_id = o.id JOIN hosts h ON h.name = m.source
WHERE o.state IN ('accepted', 'running') AND h.id = sqlc.arg(host_id) AND m.type = 'evacuation' AND m.status = 'pre-migrating'
UNION
SELECT m.server_id, m.created_at AS since
FROM ledger l JOIN migrations m ON m.server_id = l.owner_id JOIN hosts h ON h.name = m.source
WHERE l.state = 'waiting' AND l.host_id = sqlc.arg(host_id) AND l.owner_kind = 'server' AND h.id = sqlc.arg(host_id)
    AND m.type = 'evacuation' AND m.status = 'done';

-- name: FailEvacuation :exec
UPDATE migrations SET status = 'failed', updated_at = now()
WHERE operation_id = $1 AND type = 'evacuation' AND status IN ('accepted', 'pre-migrating');

-- name: CompleteEvacuations :exec
-- Those of some servers, or from one host, of which nothing waits any more on the host that
-- they left.
UPDATE migrations m SET status = 'completed', updated_at = now()
FROM hosts h
WHERE m.type = 'evacuation' AND m.status = 'done' AND h.name = m.source
    AND (m.server_id = ANY(sqlc.arg(servers)::uuid[]) OR h.id = sqlc.arg(host_id))
    AND NOT EXISTS (
        SELECT FROM ledger l WHERE l.owner_kind = 'server' AND l.owner_id = m.server_id AND l.host_id = h.id AND l.state = 'waiting');
