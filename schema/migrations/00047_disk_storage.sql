-- +goose Up

-- The id of the storage on which a host has servers' folders; '': it has said none. Hosts that say the
-- same share it.
ALTER TABLE hosts ADD COLUMN disk_storage text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE hosts DROP COLUMN disk_storage;
