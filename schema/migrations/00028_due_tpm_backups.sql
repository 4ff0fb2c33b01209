-- +goose Up
-- Servers whose vTPM's state may be backed up unasked, those first that waited longest: the janitor looks for
-- those that are due every few seconds (DueTPMBackups).
CREATE INDEX servers_tpm_backup ON servers (tpm_backup_begun_at NULLS FIRST, id)
    WHERE tpm ->> 'security' IN ('host', 'deployment') AND deleted_at IS NULL AND task_state = '' AND current_operation = ''
        AND resume_at IS NULL AND former IS NULL
        AND (vm_state IN ('active', 'paused') OR vm_state = 'stopped' AND NOT coalesce((tpm_backup ->> 'final')::boolean, false));

-- +goose Down
DROP INDEX servers_tpm_backup;
