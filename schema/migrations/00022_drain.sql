-- +goose Up

-- What becomes of the servers of a host that is drained. The drain is an operation whose
-- subject is the host.
CREATE TABLE drained_servers (
    operation_id text NOT NULL REFERENCES operations (id) ON DELETE CASCADE, -- the drain
    server_id    uuid NOT NULL REFERENCES servers (id) ON DELETE CASCADE,
    state        text NOT NULL, -- moving, confirming, moved, left, failed
    child        text NOT NULL DEFAULT '', -- the operation that moves or confirms it, or the last one that did
    message      text NOT NULL DEFAULT '', -- why it did not leave
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (operation_id, server_id)
);
CREATE INDEX drained_servers_server ON drained_servers (server_id);
-- A host has one drain at a time.
CREATE UNIQUE INDEX operations_drain ON operations (subject_id) WHERE kind = 'drain' AND state IN ('accepted', 'running');

-- +goose Down
DROP INDEX operations_drain;
DROP TABLE drained_servers;
