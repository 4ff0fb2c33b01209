-- name: PutEndorsement :execrows
-- The certificates of the vTPM that an operation makes, which runs. One that is made again takes the place of the one before.
INSERT INTO tpm_endorsements (server_id, operation_id, certificates, issuers)
SELECT sqlc.arg(server_id), o.id, sqlc.arg(certificates), sqlc.arg(issuers)
FROM operations o WHERE o.id = sqlc.arg(operation_id) AND o.server_id = sqlc.arg(server_id) AND o.state IN ('accepted', 'running')
ON CONFLICT (server_id, operation_id) DO UPDATE SET certificates = EXCLUDED.certificates, issuers = EXCLUDED.issuers;

-- name: DeleteOtherEndorsements :exec
-- Those of vTPMs that the server has no more, and will not have again.
DELETE FROM tpm_endorsements e USING servers s
WHERE e.server_id = sqlc.arg(server_id) AND s.id = e.server_id AND e.operation_id <> sqlc.arg(operation_id)
    AND e.operation_id <> coalesce(s.tpm ->> 'endorsed', '') AND e.operation_id <> coalesce(s.former #>> '{tpm,endorsed}', '');

-- name: NoteEndorsement :exec
-- The server has the vTPM that the operation made, if it made one: its certificates are the server's. of_new: only if the vTPM
-- that the server has was to be made.
UPDATE servers s SET tpm = s.tpm || jsonb_build_object('endorsed', sqlc.arg(operation_id)::text)
WHERE s.id = sqlc.arg(server_id) AND jsonb_typeof(s.tpm) = 'object'
    AND EXISTS (SELECT FROM tpm_endorsements e WHERE e.server_id = s.id AND e.operation_id = sqlc.arg(operation_id)::text)
    AND (NOT sqlc.arg(of_new)::boolean OR EXISTS (SELECT FROM server_system_metadata m WHERE m.server_id = s.id AND m.key = 'tpm_new'));

-- name: GetEndorsement :one
SELECT * FROM tpm_endorsements WHERE server_id = $1 AND operation_id = $2;

-- name: DeleteEndorsements :exec
DELETE FROM tpm_endorsements WHERE server_id = $1;

-- name: StartsOn :one
-- Whether an operation is about to start a server on a host, or has and is not decided yet. The host that the server leaves is none.
SELECT EXISTS (SELECT FROM ledger l WHERE l.kind = 'running_domain' AND l.place = sqlc.arg(host)::text
    AND l.owner_kind = 'server' AND l.owner_id = sqlc.arg(server)::uuid AND l.operation_id = sqlc.arg(operation)::text
    AND l.state NOT IN ('released', 'handed_over', 'waiting'))::boolean AS starts;

-- name: RenewsTPM :one
-- Whether an operation keeps on a host what was there of the state of a server's vTPM, since another state takes its place.
SELECT EXISTS (SELECT FROM ledger l WHERE l.kind = 'tpm_state' AND l.place = sqlc.arg(host)::text AND l.name = sqlc.arg(kept)::text
    AND l.operation_id = sqlc.arg(operation)::text AND l.state IN ('intended', 'present'))::boolean AS renews;
