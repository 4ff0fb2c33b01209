-- +goose Up
-- What the watch of shares found is remembered for each of them: when it was last seen, since when it is
-- left alone because too many are missed at once, and what its server's owner is told of one that was taken away.
ALTER TABLE server_shares ADD COLUMN seen_at timestamptz, -- when a look that found the share and the access to it began
    ADD COLUMN held_at timestamptz, -- since when it is missed with too many others; NULL: it is not
    ADD COLUMN lost text NOT NULL DEFAULT '', -- why it was put in error as taken away; '': it was not
    ADD COLUMN lost_at timestamptz;
CREATE INDEX server_shares_missed ON server_shares (share_id) WHERE missed_at IS NOT NULL;

-- Credentials of passing requests that may not look, either, are asked for less and less often.
ALTER TABLE share_refusals ADD COLUMN offers integer NOT NULL DEFAULT 0, -- how many were refused
    ADD COLUMN offer_at timestamptz NOT NULL DEFAULT now(); -- when the next one is asked for

-- +goose Down
ALTER TABLE share_refusals DROP COLUMN offers, DROP COLUMN offer_at;
DROP INDEX server_shares_missed;
ALTER TABLE server_shares DROP COLUMN seen_at, DROP COLUMN held_at, DROP COLUMN lost, DROP COLUMN lost_at;
