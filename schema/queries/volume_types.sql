-- name: ListVolumeTypes :many
-- The volume types that a list shows, each with those of its extra specs that the
-- caller may read, as one object. Every other extra spec takes no part: neither
-- in what is shown nor in what matches. is_public NULL: public and private types;
-- true: also the private ones that the project has access to.
SELECT t.*, coalesce(s.specs, '{}')::jsonb AS extra_specs
FROM volume_types t
LEFT JOIN (
    SELECT volume_type_id, jsonb_object_agg(key, value) AS specs FROM volume_type_extra_specs
    WHERE sqlc.arg(all_keys)::boolean OR key = ANY(sqlc.arg(visible_keys)::text[])
    GROUP BY volume_type_id
) s ON s.volume_type_id = t.id
WHERE (sqlc.narg(is_public)::boolean IS NULL OR t.is_public = sqlc.narg(is_public)
    OR (sqlc.narg(is_public)
        AND EXISTS (SELECT 1 FROM volume_type_access a WHERE a.volume_type_id = t.id AND a.project_id = sqlc.arg(project_id))))
  AND (sqlc.narg(id)::uuid IS NULL OR t.id = sqlc.narg(id))
  AND (sqlc.narg(name)::text IS NULL OR t.name = sqlc.narg(name))
  AND (sqlc.narg(description)::text IS NULL OR t.description = sqlc.narg(description))
  AND coalesce(s.specs, '{}') @> sqlc.arg(specs)::jsonb
  AND (sqlc.narg(zone)::text IS NULL OR strpos(s.specs ->> 'RESKEY:availability_zones', sqlc.narg(zone)) > 0);

-- name: GetVolumeType :one
-- A volume type, if it is public, the project has access to it, or everyone's are asked for.
SELECT t.*, coalesce((
    SELECT jsonb_object_agg(s.key, s.value) FROM volume_type_extra_specs s
    WHERE s.volume_type_id = t.id AND (sqlc.arg(all_keys)::boolean OR s.key = ANY(sqlc.arg(visible_keys)::text[]))
), '{}')::jsonb AS extra_specs
FROM volume_types t
WHERE t.id = sqlc.arg(id) AND (sqlc.arg(everyones)::boolean OR t.is_public
    OR EXISTS (SELECT 1 FROM volume_type_access a WHERE a.volume_type_id = t.id AND a.project_id = sqlc.arg(project_id)));

-- name: VolumeTypeNamed :one
SELECT id FROM volume_types WHERE name = $1;

-- name: LockVolumeType :one
-- A volume type that nobody else changes until the transaction ends.
SELECT t.* FROM volume_types t
WHERE t.id = sqlc.arg(id) AND (sqlc.arg(everyones)::boolean OR t.is_public
    OR EXISTS (SELECT 1 FROM volume_type_access a WHERE a.volume_type_id = t.id AND a.project_id = sqlc.arg(project_id)))
FOR UPDATE;

-- name: LockVolumeTypes :exec
-- No type comes or goes until the transaction ends.
LOCK TABLE volume_types IN SHARE ROW EXCLUSIVE MODE;

-- name: CountVolumeTypes :one
SELECT count(*) FROM volume_types;

-- name: InsertVolumeType :one
INSERT INTO volume_types (id, name, description, is_public) VALUES ($1, $2, $3, $4) RETURNING *;

-- name: InsertFirstVolumeType :exec
-- A public type where none was ever made.
INSERT INTO volume_types (id, name, description, is_public) SELECT $1, $2, $3, true
WHERE NOT EXISTS (SELECT FROM volume_types) AND NOT EXISTS (SELECT FROM volume_type_changes) ON CONFLICT DO NOTHING;

-- name: UpdateVolumeType :one
UPDATE volume_types SET name = $2, description = $3, is_public = $4, updated_at = now() WHERE id = $1 RETURNING *;

-- name: DeleteVolumeType :exec
DELETE FROM volume_types WHERE id = $1;

-- name: VolumeTypeExtraSpecs :one
-- All extra specs of a type, as one object.
SELECT coalesce(jsonb_object_agg(key, value), '{}')::jsonb FROM volume_type_extra_specs WHERE volume_type_id = $1;

-- name: SetVolumeTypeExtraSpecs :exec
INSERT INTO volume_type_extra_specs (volume_type_id, key, value)
SELECT sqlc.arg(volume_type_id)::uuid, key, value FROM jsonb_each_text(sqlc.arg(specs)::jsonb)
ON CONFLICT (volume_type_id, key) DO UPDATE SET value = excluded.value;

-- name: DeleteVolumeTypeExtraSpec :execrows
DELETE FROM volume_type_extra_specs WHERE volume_type_id = $1 AND key = $2;

-- name: VolumeTypeProjects :many
SELECT project_id FROM volume_type_access WHERE volume_type_id = $1 ORDER BY project_id;

-- name: AddVolumeTypeAccess :execrows
INSERT INTO volume_type_access (volume_type_id, project_id) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: RemoveVolumeTypeAccess :execrows
DELETE FROM volume_type_access WHERE volume_type_id = $1 AND project_id = $2;

-- name: GetVolumeTypeEncryption :one
SELECT * FROM volume_type_encryption WHERE volume_type_id = $1;

-- name: InsertVolumeTypeEncryption :one
INSERT INTO volume_type_encryption (volume_type_id, id, provider, control_location, cipher, key_size)
VALUES ($1, $2, $3, $4, $5, $6) RETURNING *;

-- name: UpdateVolumeTypeEncryption :one
UPDATE volume_type_encryption SET provider = $2, control_location = $3, cipher = $4, key_size = $5, updated_at = now()
WHERE volume_type_id = $1 RETURNING *;

-- name: DeleteVolumeTypeEncryption :exec
DELETE FROM volume_type_encryption WHERE volume_type_id = $1;

-- name: InsertVolumeTypeChange :exec
INSERT INTO volume_type_changes (volume_type_id, name, action, before, after, request_id, user_id, project_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: VolumeTypeChanges :many
-- What was done to a type, the oldest first. It may be deleted by now.
SELECT * FROM volume_type_changes WHERE volume_type_id = $1 ORDER BY number;
