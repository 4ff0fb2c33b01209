-- name: DueTPMBackups :many
-- Servers whose vTPM's state is to be backed up, those first that waited longest: on hosts that
-- answer, with keys that strongroom may use when nobody asks (hw:tpm_secret_security), not off
-- since their last backup, and with no copy of the state that is still to be put back (TPMWaits). At most per_host of a host and most in all, with those under way.
WITH under_way AS (
    SELECT s.host_id FROM operations o JOIN servers s ON s.id = o.server_id
    WHERE o.kind = 'backUpTPM' AND o.state IN ('accepted', 'running')
), due AS (
    SELECT s.id, s.project_id, s.vm_state, s.tpm_backup_begun_at,
        row_number() OVER (PARTITION BY s.host_id ORDER BY s.tpm_backup_begun_at NULLS FIRST, s.id)
            + (SELECT count(*) FROM under_way u WHERE u.host_id = s.host_id) AS nth
    FROM servers s JOIN hosts h ON h.id = s.host_id
    WHERE s.tpm ->> 'security' IN ('host', 'deployment') AND s.deleted_at IS NULL AND s.task_state = '' AND s.current_operation = ''
        AND s.resume_at IS NULL AND s.former IS NULL
        AND (s.tpm_backup_begun_at IS NULL OR s.tpm_backup_begun_at <= now() - make_interval(secs => sqlc.arg(every)::float8))
        AND (s.vm_state IN ('active', 'paused')
            OR s.vm_state = 'stopped' AND NOT coalesce((s.tpm_backup ->> 'final')::boolean, false))
        AND NOT EXISTS (SELECT FROM server_system_metadata m WHERE m.server_id = s.id AND m.key = 'tpm_new')
        AND NOT EXISTS (SELECT FROM ledger l WHERE l.owner_kind = 'server' AND l.owner_id = s.id AND l.kind = 'tpm_state'
            AND l.reference <> '' AND l.state = 'waiting')
        AND NOT h.forced_down AND h.forgotten_at IS NULL AND h.last_seen > now() - make_interval(secs => sqlc.arg(host_timeout)::float8)
)
SELECT id, project_id, vm_state FROM due WHERE nth <= sqlc.arg(per_host)::int
ORDER BY tpm_backup_begun_at NULLS FIRST, id
LIMIT greatest(sqlc.arg(most)::int - (SELECT count(*) FROM under_way), 0);

-- name: TakeServerForTPMBackup :execrows
-- TakeServer for a backup that nobody asked for. One that is to start with its host is left alone.
UPDATE servers SET task_state = sqlc.arg(task), current_operation = sqlc.arg(operation_id), tpm_backup_begun_at = now()
WHERE id = sqlc.arg(id) AND vm_state = sqlc.arg(from_vm_state) AND task_state = '' AND current_operation = ''
    AND deleted_at IS NULL AND resume_at IS NULL;

-- name: DeleteTPMBackupOperations :exec
-- Earlier backups that nobody asked for and that have ended go from the trail, but for those of
-- which something is still there.
WITH ended AS (
    SELECT o.id FROM operations o
    WHERE o.server_id = sqlc.arg(server_id) AND o.kind = 'backUpTPM' AND o.id <> sqlc.arg(operation_id)
        AND o.state NOT IN ('accepted', 'running')
        AND NOT EXISTS (SELECT FROM ledger l WHERE l.operation_id = o.id AND l.state <> 'released')
), events AS (
    DELETE FROM operation_events WHERE operation_id IN (SELECT id FROM ended)
)
DELETE FROM operations WHERE id IN (SELECT id FROM ended);

-- name: SetTPMBackup :exec
-- is_new: it is another object than before, the next generation.
UPDATE servers SET tpm_backups = tpm_backups + CASE WHEN sqlc.arg(is_new)::boolean THEN 1 ELSE 0 END, tpm_backup = sqlc.arg(tpm_backup)
WHERE id = sqlc.arg(id) AND current_operation = sqlc.arg(operation_id);

-- name: ForgetTPMBackup :exec
-- The state of the server's vTPM is another one than was backed up. The next backup is due.
UPDATE servers SET tpm_backup = NULL, tpm_backup_begun_at = NULL WHERE id = $1;

-- name: NoteTPMRuns :exec
-- The guest may change what was backed up while it was off.
UPDATE servers SET tpm_backup = tpm_backup - 'final' WHERE id = $1 AND tpm_backup ? 'final';
