-- name: TakePort :execrows
-- Gives a server a port of the network service; 0 rows: another one has it.
INSERT INTO server_ports (port_id, server_id) VALUES ($1, $2)
ON CONFLICT (port_id) DO UPDATE SET server_id = server_ports.server_id WHERE server_ports.server_id = excluded.server_id;

-- name: ReleasePorts :exec
DELETE FROM server_ports WHERE server_id = $1;

-- name: ForgetPorts :exec
-- Those of its interfaces that are on networks of the hosts' own stay.
UPDATE servers SET networks = (SELECT coalesce(jsonb_agg(n ORDER BY i), '[]') FROM jsonb_array_elements(networks) WITH ORDINALITY AS e (n, i) WHERE NOT n ? 'port')
WHERE id = $1 AND networks @? '$[*].port';

-- name: ServerHasPort :one
SELECT EXISTS (SELECT FROM server_ports WHERE port_id = $1 AND server_id = $2)::boolean;

-- name: ReleasePort :exec
DELETE FROM server_ports WHERE port_id = $1 AND server_id = $2;

-- name: ForgetPort :exec
-- The server has the port no longer.
UPDATE servers SET networks = (SELECT coalesce(jsonb_agg(n ORDER BY i), '[]') FROM jsonb_array_elements(networks) WITH ORDINALITY AS e (n, i)
    WHERE n -> 'port' ->> 'id' IS DISTINCT FROM sqlc.arg(port)::text)
WHERE id = sqlc.arg(id) AND networks @? '$[*].port';

-- name: PortWaits :one
-- Whether a server's use of a port is still to be ended.
SELECT EXISTS (SELECT FROM ledger WHERE kind = 'port' AND name = $1 AND state <> 'released')::boolean;

-- name: SetServerNetworks :exec
UPDATE servers SET networks = $2 WHERE id = $1;

-- name: TellNetworkChange :one
-- The network service says that a server's ports changed. It counts until somebody has looked at them (RenewServerNetworks).
UPDATE servers SET network_changes = network_changes + 1 WHERE id = $1 RETURNING networks, network_changes, current_operation;

-- name: ListNetworkChanges :many
-- Servers whose ports changed, at which no operation is at work. In any order: those that cannot be looked at hold up no others.
SELECT id, project_id, networks, network_changes FROM servers
WHERE network_changes > 0 AND current_operation = '' AND deleted_at IS NULL ORDER BY random() LIMIT 100;

-- name: RenewServerNetworks :execrows
-- What the network service says now of ports; nothing where they changed since they were looked at, or somebody else has looked. seen is how
-- many changes had been told before that; whole: it shows all of them.
UPDATE servers SET networks = sqlc.arg(networks), network_changes = CASE WHEN network_changes = sqlc.arg(seen) AND sqlc.arg(whole)::boolean THEN 0 ELSE network_changes END
WHERE id = sqlc.arg(id) AND networks = sqlc.arg(was)::jsonb AND current_operation = '' AND network_changes >= sqlc.arg(seen);
