-- name: CertifiedHost :one
-- A host by its name or uuid, whose certificate is good: it may not have reported itself yet.
SELECT host_id, host_name FROM host_certificates
WHERE (host_name = sqlc.arg(host)::text OR host_id::text = lower(sqlc.arg(host)::text)) AND revoked_at IS NULL AND not_after > now()
ORDER BY host_name = sqlc.arg(host)::text DESC, not_after DESC LIMIT 1;

-- name: FindSecureVolume :one
-- By the name or uuid of its host.
SELECT * FROM secure_volumes WHERE host_name = sqlc.arg(host)::text OR host_id::text = lower(sqlc.arg(host)::text)
ORDER BY host_name = sqlc.arg(host)::text DESC LIMIT 1;

-- name: LockSecureVolume :one
SELECT * FROM secure_volumes WHERE id = $1 FOR UPDATE;

-- name: PutSecureVolume :exec
-- Its device may have another path, or be another copy of it: its key says whether it is the right one.
INSERT INTO secure_volumes (id, host_id, host_name, device, wanted) VALUES ($1, $2, $3, $4, true)
ON CONFLICT (id) DO UPDATE SET device = excluded.device, host_name = excluded.host_name, wanted = true;

-- name: WantSecureVolume :exec
UPDATE secure_volumes SET wanted = $2 WHERE id = $1;

-- name: SetVolumeKeys :exec
-- And the device that they open, if it is another one.
UPDATE secure_volumes SET secret_uuid = sqlc.arg(secret), next_uuid = sqlc.arg(next), device = COALESCE(NULLIF(sqlc.arg(device)::text, ''), device)
WHERE id = sqlc.arg(id);

-- name: DeleteUnopenedVolume :exec
-- One that has no key was never begun.
DELETE FROM secure_volumes WHERE id = $1 AND secret_uuid IS NULL;

-- name: NewestVolumeOperation :one
SELECT * FROM operations WHERE subject_kind = 'volume' AND subject_id = sqlc.arg(volume)::uuid ORDER BY number DESC LIMIT 1;

-- name: VolumeKeyGranted :one
-- Whether an operation that opens a volume of the host, or changes its key, runs, and the secret is its key.
SELECT EXISTS (SELECT FROM secure_volumes v JOIN operations o ON o.subject_kind = 'volume' AND o.subject_id = v.id
    WHERE v.id = sqlc.arg(volume) AND v.host_id = sqlc.arg(host_id) AND o.state IN ('accepted', 'running')
        AND o.kind IN ('secureVolumeOpen', 'secureVolumeRotateKey')
        AND sqlc.arg(secret)::uuid IN (v.secret_uuid, v.next_uuid))::boolean AS granted;

-- name: DeleteSecureVolume :exec
DELETE FROM secure_volumes WHERE id = $1;

-- name: ReleaseOpenVolume :exec
-- What was open of a volume goes with its host.
UPDATE ledger SET state = 'released', blocked_by = '', released_at = now(), updated_at = now()
WHERE owner_kind = 'volume' AND owner_id = sqlc.arg(volume)::uuid AND host_id IS NOT NULL AND state <> 'released';

-- name: DiscardVolumeKeys :exec
-- They are due as soon as no operation is at work on the volume.
UPDATE ledger SET state = 'waiting', blocked_by = 'things', reason = sqlc.arg(reason), waiting_since = now(), try_at = now(), updated_at = now()
WHERE owner_kind = 'volume' AND owner_id = sqlc.arg(volume)::uuid AND kind = 'key_secret' AND state IN ('intended', 'present');
