-- +goose Up

-- The last backup of the state of a server's vTPM (compute.TPMBackup), how many there were, and
-- when one was begun last that nobody asked for.
ALTER TABLE servers ADD COLUMN tpm_backup jsonb, ADD COLUMN tpm_backups bigint NOT NULL DEFAULT 0,
    ADD COLUMN tpm_backup_begun_at timestamptz;

-- +goose Down
ALTER TABLE servers DROP COLUMN tpm_backup_begun_at, DROP COLUMN tpm_backups, DROP COLUMN tpm_backup;
