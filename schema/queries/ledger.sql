-- name: IntendThing :exec
-- A row before the thing. An open row of the same thing stays as it is: the
-- step runs a second time. What the operation has taken away itself it may make
-- again: an undo does.
WITH again AS (
    UPDATE ledger l SET state = 'intended', released_at = NULL, updated_at = now()
    WHERE l.id = $1 AND l.state = 'released'
        AND NOT EXISTS (SELECT FROM ledger o WHERE o.kind = l.kind AND o.place = l.place AND o.name = l.name AND o.state <> 'released')
    RETURNING l.id
)
INSERT INTO ledger (id, kind, place, name, server_id, operation_id, credential_id, project_id, user_id)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9 WHERE NOT EXISTS (SELECT FROM again)
ON CONFLICT (kind, place, name) WHERE state <> 'released' DO NOTHING;

-- name: PresentThing :exec
UPDATE ledger SET state = 'present', reference = $4, updated_at = now()
WHERE kind = $1 AND place = $2 AND name = $3 AND state <> 'released';

-- name: ReleaseThing :exec
UPDATE ledger SET state = 'released', released_at = now(), updated_at = now()
WHERE kind = $1 AND place = $2 AND name = $3 AND state <> 'released';

-- name: GiveThing :exec
UPDATE ledger SET state = 'given', updated_at = now()
WHERE kind = $1 AND place = $2 AND name = $3 AND state <> 'released';

-- name: ServerThings :many
-- What a server has in the world; what was given to its owner is not the server's.
SELECT * FROM ledger WHERE server_id = $1 AND state NOT IN ('released', 'given') ORDER BY created_at, id;

-- name: GivenThings :many
SELECT * FROM ledger WHERE server_id = $1 AND state = 'given' ORDER BY created_at, id;

-- name: OpenThings :many
SELECT sqlc.embed(l), (s.deleted_at IS NOT NULL)::boolean AS server_deleted, s.current_operation
FROM ledger l JOIN servers s ON s.id = l.server_id WHERE l.state <> 'released' ORDER BY l.place, l.kind, l.name;

-- name: ThingsReleasedSince :many
-- What went off the books while somebody looked at the world.
SELECT * FROM ledger WHERE state = 'released' AND released_at >= sqlc.arg(since)::timestamptz ORDER BY place, kind, name;

-- name: Now :one
-- The database's clock, by which the ledger's times are.
SELECT clock_timestamp()::timestamptz;
