-- name: TPMPeers :many
-- The other hosts that have the states of vTPMs on the same storage as a host, as they say.
SELECT p.id FROM hosts h JOIN hosts p ON p.tpm_storage = h.tpm_storage AND p.id <> h.id
WHERE h.id = sqlc.arg(host_id) AND h.tpm_storage <> '' ORDER BY p.id;

-- name: PassKeptTPM :exec
-- Copies of the states of vTPMs that a host was still to put back, and never will: on storage that it shares another host does,
-- the server's own one if it is among those.
UPDATE ledger l SET place = peer.host_id::text, try_at = now(), updated_at = now()
FROM (SELECT DISTINCT ON (k.id) k.id, p.id AS host_id
    FROM ledger k JOIN servers s ON s.id = k.owner_id JOIN hosts h ON h.id = k.host_id
        JOIN hosts p ON p.tpm_storage = h.tpm_storage AND p.id <> h.id AND p.forgotten_at IS NULL
    WHERE k.host_id = sqlc.arg(from_host)::uuid AND k.owner_kind = 'server' AND k.kind = 'tpm_state' AND k.reference <> '' AND k.state = 'waiting'
        AND h.tpm_storage <> ''
    ORDER BY k.id, (p.id = s.host_id) DESC NULLS LAST, p.forced_down, p.last_seen DESC) peer
WHERE l.id = peer.id;

-- name: PassTPM :exec
-- The state of a server's vTPM is on storage that two hosts share: from here on it is the other one's.
UPDATE ledger SET place = sqlc.arg(to_host)::uuid::text, updated_at = now()
WHERE owner_kind = 'server' AND owner_id = sqlc.arg(server_id)::uuid AND kind = 'tpm_state' AND name = sqlc.arg(server_id)::uuid::text
    AND host_id = sqlc.arg(from_host)::uuid AND state NOT IN ('released', 'handed_over');
