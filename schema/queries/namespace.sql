-- name: ClaimNamespace :execrows
-- The first namespace becomes the database's own.
INSERT INTO temporal_namespace (id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: OwnNamespace :one
SELECT id, name FROM temporal_namespace;

-- name: AdoptNamespace :exec
INSERT INTO temporal_namespace (id, name) VALUES ($1, $2)
ON CONFLICT (single) DO UPDATE SET id = excluded.id, name = excluded.name, adopted_at = now() WHERE temporal_namespace.id <> excluded.id;
