-- +goose Up

-- The encrypted volumes that have hosts' own state. The host may not have reported itself yet: it does that
-- once its volume is open.
CREATE TABLE secure_volumes (
    id             uuid PRIMARY KEY, -- derived from the host's
    host_id        uuid NOT NULL UNIQUE,
    host_name      text NOT NULL,
    device         text NOT NULL, -- its path on the host
    wanted         boolean NOT NULL, -- it is to be open whenever the host's worker runs
    secret_uuid    uuid, -- opens it; NULL: it was never opened
    next_uuid      uuid, -- while its key is changed, this one opens it or secret_uuid
    created_at     timestamptz NOT NULL DEFAULT now(),
    CHECK (next_uuid IS NULL OR secret_uuid IS NOT NULL)
);
-- A volume has one operation at a time.
CREATE UNIQUE INDEX operations_secure_volume ON operations (subject_id) WHERE subject_kind = 'volume' AND state IN ('accepted', 'running');

-- +goose Down
DROP INDEX operations_secure_volume;
DROP TABLE secure_volumes;
