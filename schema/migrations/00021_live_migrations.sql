-- +goose Up

-- How far a live migration is, in bytes, as its host says, and what whoever asked for it wishes
-- meanwhile: force_complete, abort.
ALTER TABLE migrations ADD COLUMN wish text NOT NULL DEFAULT '',
    ADD COLUMN memory_total bigint NOT NULL DEFAULT 0, ADD COLUMN memory_remaining bigint NOT NULL DEFAULT 0,
    ADD COLUMN memory_processed bigint NOT NULL DEFAULT 0,
    ADD COLUMN disk_total bigint NOT NULL DEFAULT 0, ADD COLUMN disk_remaining bigint NOT NULL DEFAULT 0,
    ADD COLUMN disk_processed bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE migrations DROP COLUMN disk_processed, DROP COLUMN disk_remaining, DROP COLUMN disk_total,
    DROP COLUMN memory_processed, DROP COLUMN memory_remaining, DROP COLUMN memory_total, DROP COLUMN wish;
