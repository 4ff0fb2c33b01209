-- +goose Up

-- The public key of a certificate (PKIX), by which a gateway knows keys that were revoked;
-- NULL: issued before.
ALTER TABLE host_certificates ADD COLUMN public_key bytea;
-- Whether the token is good with keys that were revoked.
ALTER TABLE host_enrollments ADD COLUMN same_keys boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE host_enrollments DROP COLUMN same_keys;
ALTER TABLE host_certificates DROP COLUMN public_key;
