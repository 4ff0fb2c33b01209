-- name: ListFlavors :many
-- What a list of flavors shows. is_public NULL: public and private ones; true:
-- also the private ones that the project has access to.
SELECT f.* FROM flavors f
WHERE (sqlc.narg(is_public)::boolean IS NULL OR f.is_public = sqlc.narg(is_public)
    OR (sqlc.narg(is_public)
        AND EXISTS (SELECT 1 FROM flavor_access a WHERE a.flavor_id = f.id AND a.project_id = sqlc.arg(project_id))))
  AND (sqlc.arg(with_disabled)::boolean OR NOT f.disabled)
  AND f.memory_mb >= sqlc.arg(min_memory_mb) AND f.root_gb >= sqlc.arg(min_root_gb)
ORDER BY f.id;

-- name: GetFlavor :one
SELECT * FROM flavors WHERE id = $1;

-- name: GetFlavorFor :one
-- The flavor, if the project may see it.
SELECT f.* FROM flavors f
WHERE f.id = $1 AND (f.is_public OR EXISTS (SELECT 1 FROM flavor_access a WHERE a.flavor_id = f.id AND a.project_id = $2));

-- name: InsertFlavor :one
INSERT INTO flavors (id, name, vcpus, memory_mb, root_gb, ephemeral_gb, swap_mb, rxtx_factor, is_public, description)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
RETURNING *;

-- name: DescribeFlavor :one
UPDATE flavors SET description = $2, updated_at = now() WHERE id = $1 RETURNING *;

-- name: DeleteFlavor :execrows
DELETE FROM flavors WHERE id = $1;

-- name: FlavorExtraSpecs :many
SELECT * FROM flavor_extra_specs WHERE flavor_id = ANY(sqlc.arg(flavor_ids)::text[]) ORDER BY flavor_id, key;

-- name: SetFlavorExtraSpecs :exec
INSERT INTO flavor_extra_specs (flavor_id, key, value)
SELECT sqlc.arg(flavor_id)::text, unnest(sqlc.arg(keys)::text[]), unnest(sqlc.arg(values)::text[])
ON CONFLICT (flavor_id, key) DO UPDATE SET value = excluded.value;

-- name: DeleteFlavorExtraSpec :execrows
DELETE FROM flavor_extra_specs WHERE flavor_id = $1 AND key = $2;

-- name: FlavorProjects :many
SELECT project_id FROM flavor_access WHERE flavor_id = $1 ORDER BY project_id;

-- name: AddFlavorAccess :execrows
INSERT INTO flavor_access (flavor_id, project_id) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: RemoveFlavorAccess :execrows
DELETE FROM flavor_access WHERE flavor_id = $1 AND project_id = $2;
