-- name: ServersAtRest :many
-- Servers of a host that no operation is at work on, with what the record says.
SELECT id, vm_state, power_state, updated_at FROM servers
WHERE host_id = $1 AND deleted_at IS NULL AND current_operation = '' AND vm_state IN ('active', 'paused', 'stopped', 'rescued');

-- name: SyncPower :execrows
-- What the hypervisor shows of a server that nobody is at work on. Nothing
-- changes when the server was touched after it was read.
UPDATE servers SET vm_state = sqlc.arg(vm_state), power_state = sqlc.arg(power_state), updated_at = now()
WHERE id = sqlc.arg(id) AND host_id = sqlc.arg(host_id) AND current_operation = '' AND vm_state = sqlc.arg(was)
    AND vm_state IN ('active', 'paused', 'stopped', 'rescued')
    AND updated_at IS NOT DISTINCT FROM sqlc.narg(seen);

-- name: ReportProgress :exec
-- How far the operation on a server is, in percent of its step. It is no change of
-- the server.
UPDATE servers SET progress = sqlc.arg(percent) WHERE id = sqlc.arg(id) AND current_operation <> '';
