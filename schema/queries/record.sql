-- name: GetServer :one
SELECT * FROM servers WHERE id = $1;

-- name: GetServerDisks :many
SELECT * FROM server_disks WHERE server_id = $1 ORDER BY boot_index = 0 DESC, role, index;

-- name: GetServerSystemMetadata :many
SELECT key, value FROM server_system_metadata WHERE server_id = $1;

-- name: SetServerTask :execrows
UPDATE servers SET task_state = $3, updated_at = now() WHERE id = $1 AND current_operation = $2;

-- name: SetServerPlaced :execrows
UPDATE servers SET host_id = $3, availability_zone = $4, updated_at = now() WHERE id = $1 AND current_operation = $2;

-- name: SettleServer :execrows
-- The end of an operation that leaves the server with a state.
UPDATE servers SET vm_state = sqlc.arg(vm_state), task_state = '', power_state = sqlc.arg(power_state),
    fault = sqlc.narg(fault), progress = sqlc.arg(progress),
    launched_at = CASE WHEN sqlc.arg(launched)::boolean THEN coalesce(launched_at, now()) ELSE launched_at END,
    started_by_operation = sqlc.arg(vm_state) = 'active' AND (vm_state <> 'active' OR started_by_operation),
    current_operation = '', updated_at = now()
WHERE id = sqlc.arg(id) AND current_operation = sqlc.arg(operation_id);

-- name: SettleServerDeleted :execrows
UPDATE servers SET vm_state = 'deleted', task_state = '', power_state = 0, fault = NULL, progress = 0,
    terminated_at = coalesce(terminated_at, now()), deleted_at = now(), current_operation = '', updated_at = now(),
    former = NULL, confirm_at = NULL, user_data = NULL -- nobody can read it any more
WHERE id = $1 AND current_operation = $2;

-- name: SetSystemMetadata :exec
INSERT INTO server_system_metadata (server_id, key, value) VALUES ($1, $2, $3)
ON CONFLICT (server_id, key) DO UPDATE SET value = excluded.value;

-- name: DeleteSystemMetadata :exec
DELETE FROM server_system_metadata WHERE server_id = $1 AND key = $2;

-- name: AttachDisk :exec
INSERT INTO server_disks (id, server_id, role, device_name, bus, size_mb, boot_index, image_id, source, encrypted,
    encryption_secret_uuid, backing_encryption_secret_uuid, encryption_format, encryption_options, file, whole)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16);

-- name: DetachDisks :exec
DELETE FROM server_disks WHERE server_id = $1 AND role = $2;

-- name: SetDiskSecret :exec
UPDATE server_disks SET encryption_secret_uuid = $2 WHERE id = $1;

-- name: SetDiskBackingSecret :exec
UPDATE server_disks SET backing_encryption_secret_uuid = $2 WHERE id = $1;

-- name: SetDiskOptions :exec
UPDATE server_disks SET encryption_format = $2, encryption_options = $3, whole = $4 WHERE id = $1;

-- name: ClearServerSecrets :exec
UPDATE server_disks SET encryption_secret_uuid = NULL, backing_encryption_secret_uuid = NULL, encryption_options = '{}' WHERE server_id = $1;

-- name: HostsWithUse :many
-- All hosts, or the only one of a name. revoked: an operator revoked all certificates that the host has. One that has merely ended is no such one.
-- zone: that it is in; availability_zone is the one that it reports.
SELECT h.*, coalesce(sum(c.vcpus), 0)::bigint AS vcpus_used, coalesce(sum(c.memory_mb), 0)::bigint AS memory_mb_used,
    coalesce(sum(c.disk_gb), 0)::bigint AS disk_gb_used, coalesce(sum(c.group_mb), 0)::bigint AS group_mb_used, count(DISTINCT c.server_id) AS servers,
    coalesce((SELECT bool_and(k.revoked_at IS NOT NULL) FROM host_certificates k WHERE k.host_id = h.id), false)::boolean AS revoked,
    (SELECT z.zone FROM host_zones z WHERE z.host_id = h.id)::text AS zone,
    (SELECT z.aggregate_metadata FROM host_zones z WHERE z.host_id = h.id)::text[] AS aggregate_metadata
FROM hosts h LEFT JOIN claims c ON c.host_id = h.id WHERE h.name = sqlc.narg(named)::text OR sqlc.narg(named)::text IS NULL GROUP BY h.id ORDER BY h.name;

-- name: LockHost :one
SELECT * FROM hosts WHERE id = $1 FOR UPDATE;

-- name: HostUse :one
-- What a claim looks at once it has locked the host.
SELECT coalesce(sum(vcpus), 0)::bigint AS vcpus, coalesce(sum(memory_mb), 0)::bigint AS memory_mb,
    coalesce(sum(disk_gb), 0)::bigint AS disk_gb, coalesce(sum(group_mb), 0)::bigint AS group_mb,
    coalesce((SELECT bool_and(k.revoked_at IS NOT NULL) FROM host_certificates k WHERE k.host_id = $1), false)::boolean AS revoked,
    (SELECT z.zone FROM host_zones z WHERE z.host_id = $1)::text AS zone,
    (SELECT z.aggregate_metadata FROM host_zones z WHERE z.host_id = $1)::text[] AS aggregate_metadata
FROM claims WHERE host_id = $1;

-- name: GetClaim :one
-- The claim that an operation has for its server.
SELECT * FROM claims WHERE server_id = $1 AND operation_id = $2;

-- name: HasOtherClaim :one
-- Whether a server has a claim of another operation.
SELECT EXISTS (SELECT FROM claims WHERE server_id = $1 AND operation_id <> $2)::boolean;

-- name: InsertClaim :exec
INSERT INTO claims (server_id, host_id, operation_id, vcpus, memory_mb, disk_gb, group_mb) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: DeleteClaims :exec
DELETE FROM claims WHERE server_id = $1;

-- name: DeleteClaimOf :exec
DELETE FROM claims WHERE server_id = $1 AND operation_id = $2;

-- name: ReportHost :execrows
-- A host reports its description and that it runs. disabled and forced_down stay as they are. 0 rows: a later
-- report of the same boot was taken. One without a number (0) is an earlier release's, and is always taken.
INSERT INTO hosts (id, name, address, agent_url, traits, networks, vcpus, memory_mb, disk_gb, vcpu_ratio, memory_ratio, disk_ratio,
    reserved_memory_mb, hypervisor_type, hypervisor_version, cpu_info, availability_zone, uptime, release, network_projects,
    boot_id, resume_guests, tpm_storage, fence_after, default_format, report_number, share_address, group_mb, disk_storage, last_seen)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, now())
ON CONFLICT (id) DO UPDATE SET name = excluded.name, address = excluded.address, agent_url = excluded.agent_url, traits = excluded.traits,
    networks = excluded.networks, network_projects = excluded.network_projects, vcpus = excluded.vcpus, memory_mb = excluded.memory_mb, disk_gb = excluded.disk_gb,
    vcpu_ratio = excluded.vcpu_ratio, memory_ratio = excluded.memory_ratio, disk_ratio = excluded.disk_ratio,
    reserved_memory_mb = excluded.reserved_memory_mb, hypervisor_type = excluded.hypervisor_type,
    hypervisor_version = excluded.hypervisor_version, cpu_info = excluded.cpu_info, availability_zone = excluded.availability_zone,
    uptime = excluded.uptime, release = excluded.release, boot_id = excluded.boot_id,
    resume_guests = excluded.resume_guests, tpm_storage = excluded.tpm_storage, fence_after = excluded.fence_after,
    default_format = excluded.default_format, report_number = excluded.report_number, share_address = excluded.share_address, group_mb = excluded.group_mb,
    disk_storage = excluded.disk_storage, last_seen = now(), forgotten_at = NULL
WHERE excluded.report_number = 0 OR hosts.boot_id <> excluded.boot_id OR hosts.report_number < excluded.report_number;

-- name: SeeHost :execrows
-- 0 rows: it was forgotten, and must report its description again.
UPDATE hosts SET last_seen = now() WHERE id = $1 AND forgotten_at IS NULL;

-- name: HostAgent :one
SELECT name, agent_url FROM hosts WHERE id = $1;

-- name: HostName :one
SELECT name FROM hosts WHERE id = $1;

-- name: ClaimedHost :one
SELECT h.name, h.traits, h.default_format, z.zone::text AS zone, h.share_address FROM hosts h JOIN host_zones z ON z.host_id = h.id WHERE h.id = $1;
