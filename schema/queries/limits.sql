-- name: ProjectUse :one
-- What a project's servers hold.
SELECT count(*) AS servers,
    coalesce(sum((flavor->>'vcpus')::bigint), 0)::bigint AS vcpus,
    coalesce(sum((flavor->>'memory_mb')::bigint), 0)::bigint AS memory_mb
FROM servers WHERE project_id = $1 AND deleted_at IS NULL;
