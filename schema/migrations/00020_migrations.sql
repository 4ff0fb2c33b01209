-- +goose Up

-- What a server was before a resize or a migration that is neither confirmed nor reverted:
-- compute.Former. confirm_at is when it is confirmed by itself.
ALTER TABLE servers ADD COLUMN former jsonb, ADD COLUMN confirm_at timestamptz,
    -- What the operation reserved_by takes beside reserved_gb.
    ADD COLUMN reserved_vcpus bigint NOT NULL DEFAULT 0, ADD COLUMN reserved_memory_mb bigint NOT NULL DEFAULT 0;
CREATE INDEX servers_confirm ON servers (confirm_at) WHERE confirm_at IS NOT NULL;
DROP INDEX servers_reserved;
CREATE INDEX servers_reserved ON servers (project_id)
    WHERE deleted_at IS NULL AND (reserved_gb > 0 OR reserved_vcpus > 0 OR reserved_memory_mb > 0);

-- The moves of servers between hosts and flavors, as os-migrations lists them.
CREATE TABLE migrations (
    number       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the API's integer id
    uuid         uuid NOT NULL UNIQUE,
    operation_id text NOT NULL UNIQUE,
    server_id    uuid NOT NULL REFERENCES servers (id) ON DELETE CASCADE,
    type         text NOT NULL, -- resize, migration
    status       text NOT NULL, -- pre-migrating, migrating, post-migrating, finished, confirmed, reverted, error
    source       text NOT NULL,
    destination  text NOT NULL,
    address      text NOT NULL DEFAULT '', -- of the destination
    old_flavor   text NOT NULL,
    new_flavor   text NOT NULL,
    project_id   text NOT NULL, -- of whoever asked
    user_id      text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX migrations_server ON migrations (server_id);

-- +goose Down
DROP TABLE migrations;
DROP INDEX servers_reserved, servers_confirm;
CREATE INDEX servers_reserved ON servers (project_id) WHERE deleted_at IS NULL AND reserved_gb > 0;
ALTER TABLE servers DROP COLUMN reserved_memory_mb, DROP COLUMN reserved_vcpus, DROP COLUMN confirm_at, DROP COLUMN former;
