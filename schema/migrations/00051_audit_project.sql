-- +goose Up
-- The project that an audit is of; empty: all.
ALTER TABLE audits ADD COLUMN project_id text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE audits DROP COLUMN project_id;
