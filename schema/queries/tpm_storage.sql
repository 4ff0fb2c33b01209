-- name: TPMPeers :many
-- The other hosts that have the states of vTPMs on the same storage as a host, as they say.
SELECT p.id FROM hosts h JOIN hosts p ON p.tpm_storage = h.tpm_storage AND p.id <> h.id
WHERE h.id = sqlc.arg(host_id) AND h.tpm_storage <> '' ORDER BY p.id;

-- name: PassTPM :exec
-- The state of a server's vTPM is on storage that two hosts share: from here on it is the other one's.
UPDATE ledger SET place = sqlc.arg(to_host)::uuid::text, updated_at = now()
WHERE owner_kind = 'server' AND owner_id = sqlc.arg(server_id)::uuid AND kind = 'tpm_state' AND name = sqlc.arg(server_id)::uuid::text
    AND host_id = sqlc.arg(from_host)::uuid AND state NOT IN ('released', 'handed_over');
