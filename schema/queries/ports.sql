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

-- name: HasPort :one
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

-- name: RenewServerNetworks :execrows
-- What the network service says now of ports; nothing where they changed since they were looked at.
UPDATE servers SET networks = sqlc.arg(networks) WHERE id = sqlc.arg(id) AND networks = sqlc.arg(was)::jsonb AND current_operation = '';
