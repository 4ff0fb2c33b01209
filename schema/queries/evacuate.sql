-- name: LockFenced :one
-- Whether a host is down by its operator's word, for how long it has not reported itself, in seconds, and
-- the timeout of its lease. Until the transaction ends no report of it is taken.
SELECT name, (forced_down OR forgotten_at IS NOT NULL)::boolean AS forced_down,
    extract(epoch FROM now() - last_seen)::float8 AS silent, fence_after
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
-- Servers that must not run on a host: those that left it while it was down, or are leaving it; those
-- that stay there since they could not leave, while the host that they were to go to may still run them;
-- and those that were to come while they ran, when it was fenced before it said whether they had, and
-- did not say later, once it was back, that they are there.
-- since is when that began: what was started there later runs there by right.
SELECT m.server_id, m.created_at AS since FROM migrations m JOIN operations o ON o.id = m.operation_id
WHERE m.type = 'evacuation' AND m.source_id = sqlc.arg(host_id)
    AND (m.status = 'pre-migrating' AND o.state IN ('accepted', 'running')
        OR m.status = 'done' AND EXISTS (
            SELECT FROM ledger l WHERE l.owner_kind = 'server' AND l.owner_id = m.server_id AND l.host_id = m.source_id AND l.state = 'waiting')
        OR m.status = 'failed' AND EXISTS (
            SELECT FROM ledger l WHERE l.owner_kind = 'server' AND l.owner_id = m.server_id AND l.kind = 'running_domain'
                AND l.operation_id = m.operation_id AND l.state NOT IN ('released', 'handed_over')))
UNION
SELECT m.server_id, m.fenced_at::timestamptz AS since FROM migrations m JOIN operations o ON o.id = m.operation_id
WHERE m.fenced_at IS NOT NULL AND m.destination_id = sqlc.arg(host_id) AND m.status NOT IN ('post-migrating', 'completed')
    AND (o.state IN ('accepted', 'running') OR EXISTS (
        SELECT FROM ledger l WHERE l.owner_kind = 'server' AND l.owner_id = m.server_id AND l.host_id = m.destination_id AND l.state = 'waiting'));

-- name: NoteFenced :exec
UPDATE migrations SET fenced_at = coalesce(fenced_at, now()), updated_at = now()
WHERE operation_id = sqlc.arg(operation_id) AND destination_id = sqlc.arg(host_id);

-- name: FailEvacuation :exec
UPDATE migrations SET status = 'failed', updated_at = now()
WHERE operation_id = $1 AND type = 'evacuation' AND status IN ('accepted', 'pre-migrating');

-- name: CompleteEvacuations :exec
-- Those of some servers, or from one host, of which nothing waits any more on the host that
-- they left.
UPDATE migrations m SET status = 'completed', updated_at = now()
WHERE m.type = 'evacuation' AND m.status = 'done'
    AND (m.server_id = ANY(sqlc.arg(servers)::uuid[]) OR m.source_id = sqlc.narg(host_id))
    AND NOT EXISTS (
        SELECT FROM ledger l WHERE l.owner_kind = 'server' AND l.owner_id = m.server_id AND l.host_id = m.source_id AND l.state = 'waiting');
