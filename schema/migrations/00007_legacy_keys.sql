-- +goose Up

-- The one key of all local disks of a server whose disks were encrypted by the
-- legacy implementation (dm-crypt on LVM). NULL: none, or the disks have it.
ALTER TABLE servers ADD COLUMN ephemeral_key_uuid uuid;
CREATE INDEX servers_legacy ON servers (number) WHERE ephemeral_key_uuid IS NOT NULL AND deleted_at IS NULL;

-- +goose Down
DROP INDEX servers_legacy;
ALTER TABLE servers DROP COLUMN ephemeral_key_uuid;
