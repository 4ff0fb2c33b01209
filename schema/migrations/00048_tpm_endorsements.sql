-- +goose Up
-- Certificates of the endorsement keys of vTPMs. Which of them are those of the vTPM that a server has says its record
-- (servers.tpm, endorsed): the operation that made it.
CREATE TABLE tpm_endorsements (
    server_id    uuid NOT NULL REFERENCES servers (id) ON DELETE CASCADE,
    operation_id text NOT NULL,
    certificates bytea[] NOT NULL, -- DER
    issuers      bytea[] NOT NULL, -- DER, that which signed first
    PRIMARY KEY (server_id, operation_id)
);

-- +goose Down
UPDATE servers SET tpm = tpm - 'endorsed' WHERE tpm ? 'endorsed';
UPDATE servers SET former = former #- '{tpm,endorsed}' WHERE former -> 'tpm' ? 'endorsed';
UPDATE servers SET tpm_backup = tpm_backup #- '{of,endorsed}' WHERE tpm_backup -> 'of' ? 'endorsed';
DROP TABLE tpm_endorsements;
