-- name: DiskPeers :many
-- The other hosts that have servers' folders on the same storage as a host, as they say.
SELECT p.id FROM hosts h JOIN hosts p ON p.disk_storage = h.disk_storage AND p.id <> h.id
WHERE h.id = sqlc.arg(host_id) AND h.disk_storage <> '' ORDER BY p.id;

-- name: HostsThatSeeDisksOf :many
-- The hosts that have files of a server in their folders for it, since another host, on which the ledger has these, has its folders on
-- the same storage; but_of: not those that only share that host's.
SELECT DISTINCT p.id FROM ledger l JOIN hosts h ON h.id = l.host_id JOIN hosts p ON p.disk_storage = h.disk_storage AND p.id <> h.id
WHERE l.owner_kind = 'server' AND l.owner_id = sqlc.arg(server_id)::uuid AND l.kind IN ('disk_file', 'key_slot')
    AND l.state NOT IN ('released', 'handed_over') AND h.disk_storage <> '' AND (h.id <> sqlc.narg(but_of)::uuid) IS NOT FALSE;

-- name: PassDisks :exec
-- What is in a server's folder is on storage that two hosts share: from here on it is the other one's, also what waits to be removed.
UPDATE ledger l SET place = sqlc.arg(to_host)::uuid::text, try_at = now(), updated_at = now()
WHERE l.owner_kind = 'server' AND l.owner_id = sqlc.arg(server_id)::uuid AND l.kind IN ('disk_file', 'key_slot')
    AND l.host_id = sqlc.arg(from_host)::uuid AND l.state NOT IN ('released', 'handed_over')
    AND NOT EXISTS (SELECT FROM ledger o WHERE o.kind = l.kind AND o.place = sqlc.arg(to_host)::uuid::text AND o.name = l.name AND o.state <> 'released');

-- name: ReleasePassed :exec
-- What a host still has of a server's folder on the ledger once PassDisks gave all of it to another one: that has the same on record itself.
UPDATE ledger SET state = 'released', blocked_by = '', released_at = now(), updated_at = now()
WHERE owner_kind = 'server' AND owner_id = sqlc.arg(server_id)::uuid AND kind IN ('disk_file', 'key_slot')
    AND host_id = sqlc.arg(from_host)::uuid AND state NOT IN ('released', 'handed_over');

-- name: PassWaitingDisks :exec
-- Files that a host was still to remove, and never will: on storage that it shares another host does.
UPDATE ledger l SET place = peer.host_id::text, try_at = now(), updated_at = now()
FROM (SELECT DISTINCT ON (k.id) k.id, p.id AS host_id
    FROM ledger k JOIN hosts h ON h.id = k.host_id JOIN hosts p ON p.disk_storage = h.disk_storage AND p.id <> h.id AND p.forgotten_at IS NULL
    WHERE k.host_id = sqlc.arg(from_host)::uuid AND k.owner_kind = 'server' AND k.kind IN ('disk_file', 'key_slot') AND k.state = 'waiting'
        AND h.disk_storage <> ''
        AND NOT EXISTS (SELECT FROM ledger o JOIN hosts oh ON oh.id = o.host_id
            WHERE o.kind = k.kind AND o.name = k.name AND o.id <> k.id AND o.state <> 'released' AND oh.disk_storage = h.disk_storage)
    ORDER BY k.id, p.forced_down, p.last_seen DESC) peer
WHERE l.id = peer.id;
