-- +goose Up

-- The hosts of a migration: their names, which the API shows, may be another host's later.
ALTER TABLE migrations ADD COLUMN source_id uuid, ADD COLUMN destination_id uuid,
    -- When it was decided that the guest of a live migration does not run on the new host, whose
    -- operator had said that it is fenced.
    ADD COLUMN fenced_at timestamptz;
CREATE INDEX migrations_source ON migrations (source_id) WHERE type = 'evacuation';
CREATE INDEX migrations_fenced ON migrations (destination_id) WHERE fenced_at IS NOT NULL;

-- +goose Down
DROP INDEX migrations_fenced, migrations_source;
ALTER TABLE migrations DROP COLUMN fenced_at, DROP COLUMN destination_id, DROP COLUMN source_id;
