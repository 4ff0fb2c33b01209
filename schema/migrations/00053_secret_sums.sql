-- +goose Up
-- What a passphrase that a host reads from another host is compared with: a keyed sum, sealed with a key of credentials.key.
CREATE TABLE secret_sums (
    server_id uuid NOT NULL REFERENCES servers (id) ON DELETE CASCADE,
    secret_id uuid NOT NULL,
    sealed    bytea NOT NULL,
    PRIMARY KEY (server_id, secret_id)
);
CREATE INDEX secret_sums_seal ON secret_sums (substring(sealed FOR 5)); -- which key sealed it

-- +goose Down
DROP TABLE secret_sums;
