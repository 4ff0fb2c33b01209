-- +goose Up

-- Since when a thing waits to be removed: what an operation that began later has made in its
-- place is not what waits.
ALTER TABLE ledger ADD COLUMN waiting_since timestamptz;
UPDATE ledger SET waiting_since = updated_at WHERE state = 'waiting';

-- +goose Down
ALTER TABLE ledger DROP COLUMN waiting_since;
