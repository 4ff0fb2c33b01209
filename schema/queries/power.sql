-- name: ServersAtRest :many
-- Servers of a host that no operation is at work on, with what the record says.
SELECT id, vm_state, power_state, updated_at FROM servers
WHERE host_id = $1 AND deleted_at IS NULL AND current_operation = '' AND vm_state IN ('active', 'paused', 'stopped', 'suspended', 'rescued', 'resized');

-- name: SyncPower :execrows
-- What the hypervisor shows of a server that nobody is at work on. Nothing
-- changes when the server was touched after it was read. Only one that an operation
-- set running is to be started again (H1).
UPDATE servers SET vm_state = sqlc.arg(vm_state), power_state = sqlc.arg(power_state), updated_at = now(),
    tpm_backup = CASE WHEN sqlc.arg(vm_state) = 'stopped' THEN tpm_backup ELSE tpm_backup - 'final' END, -- as NoteTPMRuns
    resume_at = CASE WHEN sqlc.arg(resume)::boolean AND started_by_operation THEN now() END,
    started_by_operation = started_by_operation AND sqlc.arg(vm_state) <> 'stopped'
WHERE id = sqlc.arg(id) AND host_id = sqlc.arg(host_id) AND current_operation = '' AND vm_state = sqlc.arg(was)
    AND vm_state IN ('active', 'paused', 'stopped', 'suspended', 'rescued', 'resized')
    AND updated_at IS NOT DISTINCT FROM sqlc.narg(seen);

-- name: ReportProgress :exec
-- How far the operation on a server is, in percent of its step. It is no change of
-- the server.
UPDATE servers SET progress = sqlc.arg(percent) WHERE id = sqlc.arg(id) AND current_operation <> '';

-- name: HostBoot :one
-- Whether a host was restarted since the power states of its servers were last recorded, and
-- what is to become of guests that ran.
SELECT (synced_boot_id NOT IN ('', boot_id))::boolean AS restarted, resume_guests, boot_id FROM hosts WHERE id = $1;

-- name: NoteBoot :exec
UPDATE hosts SET synced_boot_id = sqlc.arg(boot_id) WHERE id = sqlc.arg(id) AND synced_boot_id <> sqlc.arg(boot_id);

-- name: DueResumes :many
-- Servers that went off with their host and are to be started again, the oldest first.
SELECT id FROM servers
WHERE resume_at IS NOT NULL AND deleted_at IS NULL AND vm_state = 'stopped' AND task_state = '' AND current_operation = ''
ORDER BY resume_at LIMIT sqlc.arg(most);

-- name: ForgetResume :execrows
-- 0 rows: somebody took the server meanwhile.
UPDATE servers SET resume_at = NULL WHERE id = $1 AND resume_at IS NOT NULL AND current_operation = '' AND deleted_at IS NULL;
