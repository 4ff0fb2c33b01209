-- +goose Up

-- One-time tokens with which hosts get their first certificate.
CREATE TABLE host_enrollments (
    token_sha256 bytea PRIMARY KEY,
    host_name    text NOT NULL,
    expires_at   timestamptz NOT NULL,
    used_at      timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now()
);

-- The certificates of hosts. A gateway answers those alone that are here and not revoked.
CREATE TABLE host_certificates (
    serial      text PRIMARY KEY, -- hexadecimal
    host_id     uuid NOT NULL,
    host_name   text NOT NULL,
    sealing_key bytea NOT NULL, -- public, of HPKE: passphrases are sealed to it
    not_after   timestamptz NOT NULL,
    revoked_at  timestamptz,
    created_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX host_certificates_host ON host_certificates (host_id);
CREATE INDEX host_certificates_name ON host_certificates (host_name);

-- The SHA-256 of the certificate of the one authority that all gateways have.
CREATE TABLE gateway_authority (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    fingerprint bytea NOT NULL
);

-- What a running operation made, a gateway asks.
CREATE INDEX ledger_operation ON ledger (operation_id) WHERE state <> 'released';

-- +goose Down
DROP INDEX ledger_operation;
DROP TABLE gateway_authority, host_certificates, host_enrollments;
