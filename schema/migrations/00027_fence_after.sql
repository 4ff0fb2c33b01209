-- +goose Up
-- After how many seconds without an answer a host's watchdog stops its guests, as the host has
-- promised; 0: it has promised nothing.
ALTER TABLE hosts ADD COLUMN fence_after integer NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE hosts DROP COLUMN fence_after;
