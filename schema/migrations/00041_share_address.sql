-- +goose Up
-- By which address storage that goes by addresses lets the host in, on the operator's network for it. '': by none.
ALTER TABLE hosts ADD COLUMN share_address text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE hosts DROP COLUMN share_address;
