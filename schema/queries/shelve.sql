-- name: SetDiskShelved :exec
-- Where a disk's data are from here on; nil: only on its host.
UPDATE server_disks SET shelved = sqlc.narg(shelved) WHERE id = sqlc.arg(id) AND server_id = sqlc.arg(server_id);

-- name: ShelveServer :execrows
-- The point of no return of a shelve and of an offload.
UPDATE servers SET vm_state = sqlc.arg(vm_state), task_state = sqlc.arg(task_state), power_state = sqlc.arg(power_state),
    offload_at = now() + make_interval(secs => sqlc.narg(offload_seconds)::float8), updated_at = now()
WHERE id = sqlc.arg(id) AND current_operation = sqlc.arg(operation_id);

-- name: RestoreDisk :exec
-- A disk that was made of its shelved data, in a file of its own.
UPDATE server_disks SET file = sqlc.arg(file), image_id = NULL, source = NULL, backing_encryption_secret_uuid = NULL
WHERE id = sqlc.arg(id) AND server_id = sqlc.arg(server_id);

-- name: ForgetOffload :exec
UPDATE servers SET offload_at = NULL WHERE id = $1;

-- name: PostponeOffload :exec
-- When an offload that fails is tried again.
UPDATE servers SET offload_at = now() + interval '1 hour' WHERE id = $1;

-- name: UnplaceServer :exec
-- A server that has nothing on any host any more.
UPDATE servers SET host_id = NULL, availability_zone = '', offload_at = NULL, former = NULL, confirm_at = NULL WHERE id = $1 AND current_operation = $2;

-- name: DueOffloads :many
-- Shelved servers whose time on their host is over, the oldest first.
SELECT id, project_id, user_id FROM servers
WHERE offload_at <= now() AND deleted_at IS NULL AND vm_state = 'shelved' AND task_state = '' AND current_operation = ''
ORDER BY offload_at LIMIT sqlc.arg(most);

-- name: NamedHost :one
SELECT h.id, z.zone::text AS zone FROM hosts h JOIN host_zones z ON z.host_id = h.id WHERE h.name = $1 AND h.forgotten_at IS NULL;
