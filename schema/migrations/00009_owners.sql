-- +goose Up

-- A thing belongs to a server, or to an image, a share, a volume, a host or an operation.
ALTER TABLE ledger ADD COLUMN owner_kind text NOT NULL DEFAULT 'server', ADD COLUMN owner_id uuid,
    ADD COLUMN blocked_by text NOT NULL DEFAULT '', -- what a waiting thing waits for
    -- The host that it is on; NULL: it is a cloud service's.
    ADD COLUMN host_id uuid GENERATED ALWAYS AS (
        CASE WHEN place ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' THEN place::uuid END) STORED;
ALTER TABLE ledger RENAME COLUMN refused TO reason;
UPDATE ledger SET owner_id = server_id, reason = coalesce(reason, ''),
    state = CASE state WHEN 'given' THEN 'handed_over' ELSE state END,
    blocked_by = CASE WHEN state <> 'waiting' THEN '' WHEN host_id IS NULL THEN 'credential' ELSE 'host' END,
    try_at = CASE WHEN state = 'waiting' THEN coalesce(try_at, now()) END;
ALTER TABLE ledger ALTER COLUMN owner_kind DROP DEFAULT, ALTER COLUMN owner_id SET NOT NULL, DROP COLUMN server_id,
    ALTER COLUMN reason SET DEFAULT '', ALTER COLUMN reason SET NOT NULL,
    ADD CONSTRAINT ledger_blocked CHECK ((state = 'waiting') = (blocked_by <> '')),
    ADD CONSTRAINT ledger_try CHECK (state <> 'waiting' OR try_at IS NOT NULL);
DROP INDEX ledger_open;
CREATE UNIQUE INDEX ledger_open ON ledger (place, kind, name) WHERE state <> 'released'; -- in the order in which the audit reads it
CREATE INDEX ledger_owner ON ledger (owner_kind, owner_id) WHERE state <> 'released';
CREATE INDEX ledger_due ON ledger (try_at, place) WHERE state = 'waiting';
CREATE INDEX ledger_released ON ledger (released_at) WHERE state = 'released';
CREATE INDEX ledger_projects ON ledger (kind, project_id);

-- A server that moves has a claim on two hosts.
ALTER TABLE claims DROP CONSTRAINT claims_pkey, ADD PRIMARY KEY (server_id, host_id, operation_id);

-- An operation may do the same on two hosts.
ALTER TABLE operation_events DROP CONSTRAINT operation_events_operation_id_event_key,
    ADD CONSTRAINT operation_events_key UNIQUE NULLS NOT DISTINCT (operation_id, event, host_id);

-- Set by strongroom host forget: the host never comes back.
ALTER TABLE hosts ADD COLUMN forgotten_at timestamptz;

-- An operation works on a server, or else on its subject.
ALTER TABLE operations ALTER COLUMN server_id DROP NOT NULL,
    ADD COLUMN subject_kind text NOT NULL DEFAULT '', ADD COLUMN subject_id uuid,
    ADD COLUMN looked_at timestamptz, -- when the repair last tried it
    ADD CHECK ((server_id IS NULL) = (subject_id IS NOT NULL)), ADD CHECK ((subject_kind = '') = (subject_id IS NULL));
CREATE INDEX operations_subject ON operations (subject_kind, subject_id) WHERE subject_id IS NOT NULL;
DROP INDEX operations_open;
CREATE INDEX operations_open ON operations ((started_at IS NOT NULL), looked_at NULLS FIRST) WHERE state IN ('accepted', 'running');

-- What audits saw. Only an audit that is running reads it.
CREATE UNLOGGED TABLE audits (
    id         uuid PRIMARY KEY,
    started_at timestamptz NOT NULL
);
CREATE UNLOGGED TABLE audit_seen (
    audit_id  uuid NOT NULL REFERENCES audits (id) ON DELETE CASCADE,
    ledger_id uuid NOT NULL,
    PRIMARY KEY (audit_id, ledger_id)
);
CREATE UNLOGGED TABLE audit_looked (
    audit_id uuid NOT NULL REFERENCES audits (id) ON DELETE CASCADE,
    place    text NOT NULL,
    project  text NOT NULL, -- '*': the whole place
    PRIMARY KEY (audit_id, place, project)
);

-- +goose Down
DROP TABLE audit_looked, audit_seen, audits;

-- What an older release has no row for.
DELETE FROM operation_events e USING operations o WHERE o.id = e.operation_id AND o.server_id IS NULL;
DELETE FROM operations WHERE server_id IS NULL;
DROP INDEX operations_open;
ALTER TABLE operations DROP COLUMN subject_kind, DROP COLUMN subject_id, DROP COLUMN looked_at, ALTER COLUMN server_id SET NOT NULL;
CREATE INDEX operations_open ON operations (accepted_at) WHERE state IN ('accepted', 'running');

ALTER TABLE hosts DROP COLUMN forgotten_at;

DELETE FROM operation_events e USING operation_events later
WHERE later.operation_id = e.operation_id AND later.event = e.event AND later.number > e.number;
ALTER TABLE operation_events DROP CONSTRAINT operation_events_key,
    ADD CONSTRAINT operation_events_operation_id_event_key UNIQUE (operation_id, event);

-- Of the claims of a server the one of where it is stays.
DELETE FROM claims c USING servers s WHERE s.id = c.server_id AND s.host_id IS DISTINCT FROM c.host_id
    AND EXISTS (SELECT FROM claims o WHERE o.server_id = c.server_id AND o.host_id = s.host_id);
DELETE FROM claims c USING claims later
WHERE later.server_id = c.server_id AND (later.created_at, later.host_id, later.operation_id) > (c.created_at, c.host_id, c.operation_id);
ALTER TABLE claims DROP CONSTRAINT claims_pkey, ADD PRIMARY KEY (server_id);

DROP INDEX ledger_projects, ledger_released, ledger_due, ledger_owner, ledger_open;
DELETE FROM ledger WHERE owner_kind <> 'server';
ALTER TABLE ledger DROP CONSTRAINT ledger_blocked, DROP CONSTRAINT ledger_try, ALTER COLUMN reason DROP NOT NULL, ALTER COLUMN reason DROP DEFAULT,
    ADD COLUMN server_id uuid REFERENCES servers (id);
UPDATE ledger SET server_id = owner_id, reason = nullif(reason, ''), state = CASE state WHEN 'handed_over' THEN 'given' ELSE state END;
ALTER TABLE ledger RENAME COLUMN reason TO refused;
ALTER TABLE ledger ALTER COLUMN server_id SET NOT NULL, DROP COLUMN owner_kind, DROP COLUMN owner_id, DROP COLUMN blocked_by, DROP COLUMN host_id;
CREATE UNIQUE INDEX ledger_open ON ledger (kind, place, name) WHERE state <> 'released';
CREATE INDEX ledger_server ON ledger (server_id) WHERE state <> 'released';
