-- +goose Up

-- The secrets that images of servers are encrypted with. strongroom made a secret with its
-- image (made), and it goes when the image is gone (EE-44), or somebody named one that there
-- was. An image's row on the ledger says whether the image is there.
CREATE TABLE image_keys (
    image_id     uuid PRIMARY KEY,
    operation_id text NOT NULL,
    project_id   text NOT NULL,
    secret       uuid NOT NULL,
    made         boolean NOT NULL,
    policy       text NOT NULL DEFAULT '', -- os_encrypt_key_deletion_policy as it was seen last; '': not known
    look_at      timestamptz DEFAULT now(), -- when the image store is asked about the image next; NULL: never
    refused_at   timestamptz,              -- when every credential that might ask was refused
    gone_at      timestamptz,              -- when the image was first seen to be gone
    kept         text NOT NULL DEFAULT ''  -- why the secret stays though the image is gone
);
CREATE INDEX image_keys_due ON image_keys (look_at) WHERE look_at IS NOT NULL;
CREATE INDEX image_keys_refused ON image_keys (project_id) WHERE refused_at IS NOT NULL;
CREATE INDEX image_keys_secret ON image_keys (secret);
CREATE INDEX image_keys_operation ON image_keys (operation_id);
CREATE INDEX ledger_secret ON ledger (reference) WHERE kind = 'key_secret' AND state <> 'released';
CREATE INDEX server_disks_secret ON server_disks (encryption_secret_uuid) WHERE encryption_secret_uuid IS NOT NULL;
CREATE INDEX server_disks_backing_secret ON server_disks (backing_encryption_secret_uuid) WHERE backing_encryption_secret_uuid IS NOT NULL;

-- +goose Down
DROP INDEX server_disks_backing_secret, server_disks_secret, ledger_secret;
DROP TABLE image_keys;
