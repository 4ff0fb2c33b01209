-- +goose Up
-- Which releases can work on this schema: those that bring at least this migration. One
-- that older releases cannot work with raises it, so that they refuse to start.
CREATE TABLE schema_compatibility (
    oldest_release bigint NOT NULL
);
INSERT INTO schema_compatibility (oldest_release) VALUES (10);

-- +goose Down
DROP TABLE schema_compatibility;
