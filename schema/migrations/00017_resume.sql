-- +goose Up

-- Since when the host runs, as its kernel names it, and up to which of its boots the record
-- of its servers' power states has come; '': none yet.
ALTER TABLE hosts ADD COLUMN boot_id text NOT NULL DEFAULT '', ADD COLUMN synced_boot_id text NOT NULL DEFAULT '';
-- Whether guests that ran are started again when the host comes back.
ALTER TABLE hosts ADD COLUMN resume_guests boolean NOT NULL DEFAULT false;
-- Since when a server that went off with its host is to be started again.
ALTER TABLE servers ADD COLUMN resume_at timestamptz;
CREATE INDEX servers_resume ON servers (resume_at) WHERE resume_at IS NOT NULL;

-- +goose Down
DROP INDEX servers_resume;
ALTER TABLE servers DROP COLUMN resume_at;
ALTER TABLE hosts DROP COLUMN resume_guests;
ALTER TABLE hosts DROP COLUMN synced_boot_id, DROP COLUMN boot_id;
