-- +goose Up
-- Where the shared file systems service has no locks, a share or its access rule can be taken away
-- under a server: each attachment is looked at every now and then.
ALTER TABLE server_shares ADD COLUMN look_at timestamptz NOT NULL DEFAULT now(), -- when it is looked at next
    ADD COLUMN missed_at timestamptz; -- when a look first did not find the share or the rule; NULL: the last one did
CREATE INDEX server_shares_look ON server_shares (look_at) WHERE status IN ('inactive', 'active');

-- Projects whose shares no credential of strongroom's may look at.
CREATE TABLE share_refusals (
    project_id text PRIMARY KEY,
    refused_at timestamptz NOT NULL
);

-- +goose Down
DROP TABLE share_refusals;
DROP INDEX server_shares_look;
ALTER TABLE server_shares DROP COLUMN look_at, DROP COLUMN missed_at;
