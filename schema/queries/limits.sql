-- name: LockQuota :exec
-- Of all who want to hold more in a project, one counts and writes at a time. The number
-- keeps these locks apart from others.
SELECT pg_advisory_xact_lock(11, hashtext(sqlc.arg(project_id)::text));

-- name: ProjectUse :one
-- What a project's servers hold; a failed one does too, until it is deleted.
SELECT count(*) AS servers,
    (coalesce(sum(s.vcpus), 0) + coalesce(max(r.vcpus), 0))::bigint AS vcpus,
    (coalesce(sum(s.memory_mb), 0) + coalesce(max(r.memory_mb), 0))::bigint AS memory_mb,
    (coalesce(sum(s.disk_gb), 0) + coalesce(max(r.disk_gb), 0))::bigint AS disk_gb
FROM servers s, (SELECT sum(r.reserved_vcpus) AS vcpus, sum(r.reserved_memory_mb) AS memory_mb, sum(r.reserved_gb) AS disk_gb FROM servers r
    WHERE r.project_id = $1 AND r.deleted_at IS NULL AND (r.reserved_gb > 0 OR r.reserved_vcpus > 0 OR r.reserved_memory_mb > 0)
        AND (r.current_operation = r.reserved_by OR r.vm_state = 'rescued')) r
WHERE s.project_id = $1 AND s.deleted_at IS NULL;

-- name: Reserve :exec
UPDATE servers SET reserved_gb = sqlc.arg(reserved_gb), reserved_vcpus = sqlc.arg(reserved_vcpus),
    reserved_memory_mb = sqlc.arg(reserved_memory_mb), reserved_by = sqlc.arg(operation_id)
WHERE id = sqlc.arg(id);

-- name: ProjectQuotas :many
SELECT resource, most FROM project_quotas WHERE project_id = $1;

-- name: SetProjectQuotas :exec
INSERT INTO project_quotas (project_id, resource, most)
SELECT sqlc.arg(project_id)::text, unnest(sqlc.arg(resources)::text[]), unnest(sqlc.arg(limits)::bigint[])
ON CONFLICT (project_id, resource) DO UPDATE SET most = excluded.most;

-- name: DeleteProjectQuotas :exec
DELETE FROM project_quotas WHERE project_id = $1;
