-- name: HoldServer :execrows
-- The fence of every write that belongs to an operation: no row means that the
-- server has gone over to another one. The lock keeps it from doing so before
-- the transaction ends, and makes a second attempt of the same activity wait
-- for the first.
SELECT id FROM servers WHERE id = $1 AND current_operation = $2 FOR NO KEY UPDATE;
