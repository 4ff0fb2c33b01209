-- +goose Up
-- Shares of servers (SH-27). Where a share is exported is sealed as credentials are: the database
-- alone tells nobody.
CREATE TABLE server_shares (
    id uuid PRIMARY KEY, -- of the attachment
    server_id uuid NOT NULL REFERENCES servers ON DELETE CASCADE,
    share_id uuid NOT NULL,
    status text NOT NULL CHECK (status IN ('attaching', 'inactive', 'active', 'error', 'detaching')),
    tag text NOT NULL,
    share_proto text NOT NULL,
    export_location bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz,
    CONSTRAINT server_shares_share UNIQUE (server_id, share_id), -- SH-07
    CONSTRAINT server_shares_tag UNIQUE (server_id, tag)
);

-- +goose Down
DROP TABLE server_shares;
