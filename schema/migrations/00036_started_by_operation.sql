-- +goose Up
-- Whether an operation set the server running, and nothing has switched it off since. A host's word alone
-- starts no server again after a restart of the host: an attacker there would get the keys of
-- those that are off.
ALTER TABLE servers ADD COLUMN started_by_operation boolean NOT NULL DEFAULT false;
UPDATE servers SET started_by_operation = true WHERE vm_state = 'active';

-- +goose Down
ALTER TABLE servers DROP COLUMN started_by_operation;
