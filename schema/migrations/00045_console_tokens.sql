-- +goose Up
-- What opens a console: each once, on the host on which the server was when its user asked.
CREATE TABLE console_tokens (
    hash       bytea PRIMARY KEY, -- SHA-256 of the token, which nobody keeps
    server_id  uuid NOT NULL REFERENCES servers (id) ON DELETE CASCADE,
    host_id    uuid NOT NULL REFERENCES hosts (id) ON DELETE CASCADE,
    type       text NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX console_tokens_server ON console_tokens (server_id);

-- +goose Down
DROP TABLE console_tokens;
