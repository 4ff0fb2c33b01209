-- name: DrainOfHost :one
-- The newest drain of a host.
SELECT * FROM operations WHERE kind = 'drain' AND subject_kind = 'host' AND subject_id = sqlc.arg(host_id)::uuid
ORDER BY number DESC LIMIT 1;

-- name: DrainsOfHosts :many
-- The newest drain of each host, with how far it is. to_remove: how many things of servers the host is still to remove.
SELECT DISTINCT ON (o.subject_id) o.subject_id, o.id, o.state,
    count(*) FILTER (WHERE d.state IN ('moving', 'confirming')) OVER each AS moving,
    count(*) FILTER (WHERE d.state = 'moved') OVER each AS moved,
    count(*) FILTER (WHERE d.state = 'left') OVER each AS kept,
    count(*) FILTER (WHERE d.state = 'failed') OVER each AS failed,
    (SELECT count(*) FROM ledger l WHERE l.host_id = o.subject_id AND l.state = 'waiting') AS to_remove
FROM operations o LEFT JOIN drained_servers d ON d.operation_id = o.id
WHERE o.kind = 'drain' AND o.subject_kind = 'host'
WINDOW each AS (PARTITION BY o.id)
ORDER BY o.subject_id, o.number DESC;

-- name: DrainHost :exec
-- The host takes no new server. The operator's own reason, where there is one, stays, but not that of
-- an earlier drain (compute.DrainReason, compute.DrainEnd).
UPDATE hosts SET disabled = true,
    disabled_reason = CASE WHEN disabled AND disabled_reason !~ '^drain(ing|ed| cancelled)[^(]* \(req-[0-9a-f-]+\)$' THEN disabled_reason ELSE sqlc.arg(reason)::text END
WHERE id = sqlc.arg(id);

-- name: RenameDrain :exec
-- What the host's reason says once the drain has ended.
UPDATE hosts SET disabled_reason = sqlc.arg(reason)::text WHERE id = sqlc.arg(id) AND disabled AND disabled_reason = sqlc.arg(was)::text;

-- name: CancelDrain :execrows
-- What is under way ends, and nothing more begins.
UPDATE operations SET arguments = arguments || '{"cancelled": true}', updated_at = now()
WHERE id = $1 AND kind = 'drain' AND state IN ('accepted', 'running');

-- name: ServersToDrain :many
-- Servers that have something on a host and that a drain has not taken up, those first that no
-- operation is at work on.
SELECT s.id, (s.current_operation <> '')::boolean AS busy FROM servers s
WHERE s.deleted_at IS NULL
    AND (s.host_id = sqlc.arg(host_id)::uuid OR EXISTS (SELECT FROM claims c WHERE c.server_id = s.id AND c.host_id = sqlc.arg(host_id)::uuid))
    AND NOT EXISTS (SELECT FROM drained_servers d WHERE d.operation_id = sqlc.arg(operation_id) AND d.server_id = s.id)
ORDER BY s.current_operation <> '', s.created_at, s.id LIMIT sqlc.arg(most);

-- name: CountServersToDrain :one
SELECT count(*) FROM servers s
WHERE s.deleted_at IS NULL
    AND (s.host_id = sqlc.arg(host_id)::uuid OR EXISTS (SELECT FROM claims c WHERE c.server_id = s.id AND c.host_id = sqlc.arg(host_id)::uuid))
    AND NOT EXISTS (SELECT FROM drained_servers d WHERE d.operation_id = sqlc.arg(operation_id) AND d.server_id = s.id);

-- name: PutDrained :exec
INSERT INTO drained_servers (operation_id, server_id, state, child, message) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (operation_id, server_id) DO UPDATE SET state = excluded.state, child = excluded.child, message = excluded.message, updated_at = now();

-- name: DrainUnderWay :many
-- The servers that a drain moves now, with the operations that do.
SELECT d.server_id, d.state, d.child, o.state AS child_state, o.kind AS child_kind, coalesce(o.message, '')::text AS child_message,
    coalesce((SELECT e.details FROM operation_events e WHERE e.operation_id = o.id AND e.details IS NOT NULL AND e.result = 'Error'
        ORDER BY e.number LIMIT 1), '')::text AS child_failure
FROM drained_servers d JOIN operations o ON o.id = d.child
WHERE d.operation_id = $1 AND d.state IN ('moving', 'confirming') ORDER BY d.server_id;

-- name: DrainedServers :many
-- to_remove: how many things of the server the host is still to remove.
SELECT d.server_id, d.state, d.child, d.message, s.name, (SELECT count(*) FROM ledger l JOIN operations o ON o.id = d.operation_id
        WHERE l.owner_kind = 'server' AND l.owner_id = d.server_id AND l.state = 'waiting' AND l.host_id = o.subject_id) AS to_remove
FROM drained_servers d JOIN servers s ON s.id = d.server_id
WHERE d.operation_id = $1 ORDER BY s.created_at, s.id;

-- name: IsDrained :one
-- Whether a drain has taken up a server.
SELECT EXISTS (SELECT FROM drained_servers WHERE operation_id = sqlc.arg(operation_id) AND server_id = sqlc.arg(server_id))::boolean AS taken;

-- name: IsOnHost :one
-- Whether a host has something of a server, which is not deleted.
SELECT EXISTS (SELECT FROM servers s WHERE s.id = sqlc.arg(server_id)::uuid AND s.deleted_at IS NULL AND (s.host_id = sqlc.arg(host_id)::uuid
    OR EXISTS (SELECT FROM claims c WHERE c.server_id = s.id AND c.host_id = sqlc.arg(host_id)::uuid)))::boolean AS there;
