-- name: InsertConsoleToken :exec
-- Of those of one server that nobody used, the newest 32 stay: who asks in a loop fills no table.
WITH old AS (DELETE FROM console_tokens WHERE hash IN
    (SELECT t.hash FROM console_tokens t WHERE t.server_id = sqlc.arg(server_id) ORDER BY t.expires_at DESC OFFSET 31))
INSERT INTO console_tokens (hash, server_id, host_id, type, expires_at)
VALUES (sqlc.arg(hash), sqlc.arg(server_id), sqlc.arg(host_id), sqlc.arg(type), now() + sqlc.arg(seconds)::integer * interval '1 second');

-- name: FindConsoleToken :one
-- What a token opens that was not used yet, if its server is still where it was.
SELECT t.server_id, t.type, h.agent_url FROM console_tokens t JOIN servers s ON s.id = t.server_id JOIN hosts h ON h.id = t.host_id
WHERE t.hash = $1 AND t.expires_at > now() AND s.host_id = t.host_id AND s.deleted_at IS NULL;

-- name: UseConsoleToken :one
-- Takes a token: of any number at once one gets it. good says whether it opens anything: it did not expire, and its server is
-- where it was.
WITH used AS (DELETE FROM console_tokens WHERE hash = $1 RETURNING server_id, host_id, type, expires_at)
SELECT s.id AS server_id, h.id AS host_id, u.type, h.name AS host_name, h.agent_url,
    (u.expires_at > now() AND s.deleted_at IS NULL AND s.host_id IS NOT DISTINCT FROM u.host_id)::boolean AS good
FROM used u JOIN servers s ON s.id = u.server_id JOIN hosts h ON h.id = u.host_id;

-- name: ConsoleHolds :one
-- Whether a server is still on a host, and the certificate that this showed is good.
SELECT (EXISTS (SELECT FROM servers s WHERE s.id = sqlc.arg(server_id) AND s.host_id = sqlc.arg(host_id)::uuid AND s.deleted_at IS NULL)
    AND EXISTS (SELECT FROM host_certificates c WHERE c.serial = sqlc.arg(serial) AND c.host_id = sqlc.arg(host_id)::uuid
        AND c.revoked_at IS NULL AND c.not_after > now()))::boolean AS holds;

-- name: ForgetConsoleTokens :exec
-- Those that open nothing any more.
DELETE FROM console_tokens t USING servers s
WHERE s.id = t.server_id AND (t.expires_at < now() OR s.deleted_at IS NOT NULL OR s.host_id IS DISTINCT FROM t.host_id);
