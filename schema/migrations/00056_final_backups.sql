-- +goose Up
-- A guest may have run since its vTPM's backup was noted to be final: an operation that started and stopped it did not say so. The next backup does.
UPDATE servers SET tpm_backup = tpm_backup - 'final' WHERE tpm_backup ? 'final';

-- +goose Down
SELECT 1;
