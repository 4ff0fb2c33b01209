-- +goose Up

-- Where the data of a shelved server's disk are: compute.ShelvedDisk.
ALTER TABLE server_disks ADD COLUMN shelved jsonb;
-- When a shelved server leaves its host by itself.
ALTER TABLE servers ADD COLUMN offload_at timestamptz;
CREATE INDEX servers_offload ON servers (offload_at) WHERE offload_at IS NOT NULL;

-- +goose Down
DROP INDEX servers_offload;
ALTER TABLE servers DROP COLUMN offload_at;
ALTER TABLE server_disks DROP COLUMN shelved;
