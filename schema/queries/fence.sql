-- name: LockServerOf :execrows
-- The fence of every write that belongs to an operation: no row means that another
-- operation has taken over the server. The lock keeps others from doing so before
-- the transaction ends, and makes a second attempt of the same activity wait
-- for the first.
SELECT id FROM servers WHERE id = $1 AND current_operation = $2 FOR NO KEY UPDATE;

-- name: LockOperation :execrows
-- The fence of an operation that has no server: nobody takes anything from it before it ends.
SELECT id FROM operations WHERE id = $1 AND server_id IS NULL AND state IN ('accepted', 'running') FOR NO KEY UPDATE;
