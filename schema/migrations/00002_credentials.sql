-- +goose Up

-- Credentials: the sealed token of a request, as long as an operation acts with it, or a
-- trust, as long as its server exists.
CREATE TABLE credentials (
    id         uuid PRIMARY KEY,
    project_id text NOT NULL,
    user_id    text NOT NULL,
    sealed     bytea,
    trust_id   text,
    offered    boolean NOT NULL DEFAULT false, -- no operation's: a passing request gave it to what waits in its project
    created_at timestamptz NOT NULL DEFAULT now(),
    CHECK ((sealed IS NULL) <> (trust_id IS NULL))
);
CREATE INDEX credentials_project ON credentials (project_id);
-- One offer in a project is enough.
CREATE UNIQUE INDEX credentials_offered ON credentials (project_id) WHERE offered;

-- A thing that is to go and that nobody's credential could remove yet is waiting.
ALTER TABLE ledger ADD COLUMN refused text, -- why
    ADD COLUMN tries integer NOT NULL DEFAULT 0,
    ADD COLUMN try_at timestamptz;
CREATE INDEX ledger_waiting ON ledger (project_id) WHERE state = 'waiting';
CREATE INDEX operations_credential ON operations (credential_id) WHERE state IN ('accepted', 'running');

-- +goose Down
DROP INDEX operations_credential, ledger_waiting;
ALTER TABLE ledger DROP COLUMN refused, DROP COLUMN tries, DROP COLUMN try_at;
DROP TABLE credentials;
