-- name: LockLocalPorts :exec
-- One at a time makes a port: it counts those that are there, and takes an address that is free.
LOCK TABLE local_ports IN SHARE ROW EXCLUSIVE MODE;

-- name: ListLocalPorts :many
-- Of a project, or the one of them with the id.
SELECT sqlc.embed(p), coalesce(s.power_state = 1 AND s.deleted_at IS NULL, false)::boolean AS running
FROM local_ports p LEFT JOIN servers s ON s.id = p.server_id
WHERE p.project_id = sqlc.arg(project_id) AND (sqlc.narg(id)::uuid IS NULL OR p.id = sqlc.narg(id)::uuid) ORDER BY p.id;

-- name: ListLocalAddresses :many
-- The addresses of a prefix that ports have. A network that is gone may have had the prefix and left ports, whose MAC addresses follow from these.
SELECT address FROM local_ports WHERE address::inet << sqlc.arg(prefix)::text::cidr;

-- name: LocalPortAt :one
SELECT * FROM local_ports WHERE network_id = $1 AND address = $2;

-- name: LocalAddressOwner :one
-- The server that has an address.
SELECT server_id::uuid AS server_id, project_id FROM local_ports WHERE network_id = $1 AND address = $2 AND server_id IS NOT NULL;

-- name: InsertLocalPort :exec
INSERT INTO local_ports (id, project_id, name, network_id, address, mac, server_id) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: BindLocalPort :execrows
-- 0 rows: another server has it, or it is gone.
UPDATE local_ports SET server_id = sqlc.arg(server_id)::uuid, host = sqlc.arg(host), prepared = array_remove(prepared, sqlc.arg(host)::text)
WHERE id = sqlc.arg(id) AND project_id = sqlc.arg(project_id) AND (server_id IS NULL OR server_id = sqlc.arg(server_id)::uuid);

-- name: UnbindLocalPort :exec
UPDATE local_ports SET server_id = CASE WHEN sqlc.arg(keep)::boolean THEN server_id END, host = '', prepared = '{}'
WHERE id = sqlc.arg(id) AND project_id = sqlc.arg(project_id) AND server_id = sqlc.arg(server_id)::uuid;

-- name: PrepareLocalPort :execrows
-- 0 rows: it is not the server's, or it is gone. A host to which it is bound has its binding already.
UPDATE local_ports SET prepared = CASE WHEN host = sqlc.arg(host)::text THEN prepared ELSE array_append(array_remove(prepared, sqlc.arg(host)::text), sqlc.arg(host)::text) END
WHERE id = sqlc.arg(id) AND project_id = sqlc.arg(project_id) AND server_id = sqlc.arg(server_id)::uuid;

-- name: ActivateLocalPort :execrows
-- 0 rows: it has no binding there that is not active. What was active is not any more.
UPDATE local_ports SET prepared = array_remove(array_append(array_remove(prepared, sqlc.arg(host)::text), host), ''), host = sqlc.arg(host)::text
WHERE id = sqlc.arg(id) AND project_id = sqlc.arg(project_id) AND sqlc.arg(host)::text = ANY (prepared);

-- name: WithdrawLocalPort :exec
UPDATE local_ports SET prepared = array_remove(prepared, sqlc.arg(host)::text) WHERE id = sqlc.arg(id) AND project_id = sqlc.arg(project_id);

-- name: DeleteLocalPort :exec
-- By its name, and by its id where that is known.
DELETE FROM local_ports WHERE project_id = sqlc.arg(project_id) AND (name = sqlc.arg(name) OR id = sqlc.narg(id)::uuid);
