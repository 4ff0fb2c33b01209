-- name: AddEnrollment :exec
INSERT INTO host_enrollments (token_sha256, host_name, expires_at, same_keys)
VALUES (sqlc.arg(token_sha256), sqlc.arg(host_name), now() + make_interval(secs => sqlc.arg(seconds)::float8), sqlc.arg(same_keys));

-- name: UseEnrollment :one
-- A token works once.
UPDATE host_enrollments SET used_at = now() WHERE token_sha256 = $1 AND used_at IS NULL AND expires_at > now() RETURNING host_name, same_keys;

-- name: DeleteOldEnrollments :exec
DELETE FROM host_enrollments WHERE expires_at < now() - interval '1 day';

-- name: OtherHost :one
-- Whether another host has this name, or a host of another name this id.
SELECT (EXISTS (SELECT FROM host_certificates c WHERE c.revoked_at IS NULL AND c.not_after > now()
        AND (c.host_name = sqlc.arg(host_name)) <> (c.host_id = sqlc.arg(host_id)))
    OR EXISTS (SELECT FROM hosts h WHERE (h.name = sqlc.arg(host_name)) <> (h.id = sqlc.arg(host_id))))::boolean AS other;

-- name: LockHostCertificate :one
-- The certificate with which another is asked for, by its key to which passphrases are sealed:
-- it stays good until the other is there.
SELECT sealing_key FROM host_certificates WHERE serial = $1 AND revoked_at IS NULL AND not_after > now() FOR SHARE;

-- name: KeysWereRevoked :one
-- Whether one of these keys was revoked with a certificate, of any host. NULL is no key.
SELECT EXISTS (SELECT FROM host_certificates WHERE revoked_at IS NOT NULL
    AND (public_key = sqlc.arg(public_key) OR sealing_key = sqlc.arg(sealing_key)))::boolean AS revoked;

-- name: DeleteEndedCertificates :exec
-- Those that were revoked stay: their keys are refused.
DELETE FROM host_certificates WHERE host_id = $1 AND not_after < now() AND revoked_at IS NULL;

-- name: LockRenewals :exec
-- Renewals of a host come one after another.
SELECT pg_advisory_xact_lock(14, hashtext(sqlc.arg(host_id)::uuid::text));

-- name: CertificatesOfAWeek :one
-- How many certificates a host got within a week that were not revoked.
SELECT count(*) FROM host_certificates WHERE host_id = $1 AND revoked_at IS NULL AND created_at > now() - interval '7 days';

-- name: AddHostCertificate :exec
INSERT INTO host_certificates (serial, host_id, host_name, public_key, sealing_key, not_after) VALUES ($1, $2, $3, $4, $5, $6);

-- name: HostCertificate :one
SELECT host_id, host_name, sealing_key FROM host_certificates WHERE serial = $1 AND revoked_at IS NULL AND not_after > now();

-- name: RevokeHost :execrows
-- All certificates of a host, by its name or uuid.
UPDATE host_certificates SET revoked_at = now()
WHERE (host_name = sqlc.arg(host)::text OR host_id::text = lower(sqlc.arg(host)::text)) AND revoked_at IS NULL;

-- name: RevokedCertificates :one
-- Those that would be good still, and by one clock for all gateways, when that was so.
SELECT now()::timestamptz AS asked_at, coalesce(array_agg(serial ORDER BY revoked_at), '{}')::text[] AS serials,
    coalesce(array_agg(revoked_at ORDER BY revoked_at), '{}')::timestamptz[] AS revoked_at
FROM host_certificates WHERE revoked_at IS NOT NULL AND not_after > now();

-- name: DeleteEnrollmentsOf :execrows
-- Tokens of a host, by its name or uuid, that nobody used yet.
DELETE FROM host_enrollments WHERE used_at IS NULL AND host_name IN (
    SELECT sqlc.arg(host)::text
    UNION SELECT c.host_name FROM host_certificates c WHERE c.host_id::text = lower(sqlc.arg(host)::text)
    UNION SELECT h.name FROM hosts h WHERE h.id::text = lower(sqlc.arg(host)::text));

-- name: KeepAuthority :one
-- The fingerprint of the one certificate authority of all gateways: the first one's.
INSERT INTO gateway_authority (fingerprint) VALUES ($1) ON CONFLICT (one) DO UPDATE SET one = true RETURNING fingerprint;

-- name: ServerIsOn :one
-- Whether a server is on a host, or an operation has claimed room for it there.
SELECT (EXISTS (SELECT FROM servers s WHERE s.id = sqlc.arg(server_id) AND s.host_id = sqlc.arg(host_id) AND s.deleted_at IS NULL)
    OR EXISTS (SELECT FROM claims c WHERE c.server_id = sqlc.arg(server_id) AND c.host_id = sqlc.arg(host_id)))::boolean AS here;

-- name: RunningOperations :many
-- The operations on a server that have begun and not ended.
SELECT * FROM operations WHERE server_id = $1 AND state IN ('accepted', 'running') ORDER BY number;

-- name: MadeWith :one
-- Whether one of the operations made a thing, with a credential: a secret by its reference,
-- an image by its name.
SELECT EXISTS (SELECT FROM ledger l WHERE l.operation_id = ANY (sqlc.arg(operations)::text[]) AND l.state NOT IN ('released', 'handed_over')
    AND l.kind = sqlc.arg(kind) AND (l.name = sqlc.arg(id)::text OR l.reference = sqlc.arg(id)::text)
    AND l.credential_id = sqlc.arg(credential_id) AND l.project_id = sqlc.arg(project_id) AND l.user_id = sqlc.arg(user_id))::boolean AS made;

-- name: OpenObject :one
-- The row of an object that is there or may be.
SELECT * FROM ledger WHERE kind = 'object' AND place = 'object-store' AND name = $1 AND state NOT IN ('released', 'handed_over');

-- name: TransferGranted :one
-- Whether an operation that runs is about to make a thing of a server on the host with a
-- certificate, another one than that which asks and has the thing of that name.
SELECT (EXISTS (SELECT FROM host_certificates c
        JOIN ledger l ON l.place = c.host_id::text AND l.kind = sqlc.arg(kind) AND l.name = sqlc.arg(name)
        JOIN operations o ON o.id = l.operation_id
        WHERE c.serial = sqlc.arg(serial) AND c.revoked_at IS NULL AND c.not_after > now() AND c.host_id <> sqlc.arg(source)::uuid
            AND l.state = 'intended' AND l.owner_kind = 'server' AND l.owner_id = sqlc.arg(server_id)::uuid
            AND o.id = sqlc.arg(operation_id) AND o.server_id = sqlc.arg(server_id)::uuid AND o.state IN ('accepted', 'running'))
    AND EXISTS (SELECT FROM ledger l WHERE l.place = (sqlc.arg(source)::uuid)::text AND l.kind = sqlc.arg(kind) AND l.name = sqlc.arg(name)
        AND l.state = 'present' AND l.owner_kind = 'server' AND l.owner_id = sqlc.arg(server_id)::uuid))::boolean AS granted;

-- name: ImageTransferGranted :one
-- Whether an operation that runs has claimed the host with a certificate for a server that has a
-- disk on another one, which asks.
SELECT (EXISTS (SELECT FROM host_certificates c
        JOIN claims k ON k.host_id = c.host_id AND k.server_id = sqlc.arg(server_id)::uuid
        JOIN operations o ON o.id = k.operation_id
        WHERE c.serial = sqlc.arg(serial) AND c.revoked_at IS NULL AND c.not_after > now() AND c.host_id <> sqlc.arg(source)::uuid
            AND o.id = sqlc.arg(operation_id) AND o.server_id = k.server_id AND o.state IN ('accepted', 'running'))
    AND EXISTS (SELECT FROM ledger l WHERE l.place = (sqlc.arg(source)::uuid)::text AND l.kind = 'disk_file'
        AND l.state = 'present' AND l.owner_kind = 'server' AND l.owner_id = sqlc.arg(server_id)::uuid))::boolean AS granted;

-- name: ArrivalGranted :one
-- Whether an operation that runs is about to run a server on the host that asks, which runs on the
-- one with a certificate.
SELECT (EXISTS (SELECT FROM ledger l JOIN operations o ON o.id = l.operation_id
        WHERE l.place = (sqlc.arg(destination)::uuid)::text AND l.kind = 'running_domain' AND l.state = 'intended'
            AND l.owner_kind = 'server' AND l.owner_id = sqlc.arg(server_id)::uuid
            AND o.id = sqlc.arg(operation_id) AND o.server_id = sqlc.arg(server_id)::uuid AND o.state IN ('accepted', 'running'))
    AND EXISTS (SELECT FROM host_certificates c JOIN servers s ON s.host_id = c.host_id
        WHERE c.serial = sqlc.arg(serial) AND c.revoked_at IS NULL AND c.not_after > now() AND c.host_id <> sqlc.arg(destination)::uuid
            AND s.id = sqlc.arg(server_id)::uuid))::boolean AS granted;

-- name: KeysGranted :one
-- The key to which passphrases are sealed of the host with a certificate, where an operation that
-- runs is about to make disks of a server, or to run it, that runs on the host that asks and goes
-- to that one while it runs.
SELECT c.sealing_key FROM host_certificates c
    JOIN ledger l ON l.place = c.host_id::text AND l.kind IN ('disk_file', 'running_domain') AND l.state = 'intended'
    JOIN operations o ON o.id = l.operation_id
    JOIN servers s ON s.id = o.server_id
WHERE c.serial = sqlc.arg(serial) AND c.revoked_at IS NULL AND c.not_after > now() AND c.host_id <> sqlc.arg(source)
    AND l.owner_kind = 'server' AND l.owner_id = sqlc.arg(server_id)::uuid
    AND o.id = sqlc.arg(operation_id) AND o.server_id = sqlc.arg(server_id)::uuid AND o.kind = 'live-migration' AND o.state IN ('accepted', 'running')
    AND s.current_operation = o.id AND s.host_id = sqlc.arg(source) AND s.deleted_at IS NULL
LIMIT 1;

-- name: KeysSource :one
-- The same as the other host asks it: where the server comes from, and by which operation; and the
-- certificates of that host that are good.
SELECT o.id AS operation_id, h.id AS host_id, h.name, h.agent_url,
    ARRAY(SELECT c.serial FROM host_certificates c WHERE c.host_id = h.id AND c.revoked_at IS NULL AND c.not_after > now() ORDER BY c.serial)::text[] AS serials
FROM ledger l
    JOIN operations o ON o.id = l.operation_id
    JOIN servers s ON s.id = o.server_id
    JOIN hosts h ON h.id = s.host_id
WHERE l.place = (sqlc.arg(destination)::uuid)::text AND l.kind IN ('disk_file', 'running_domain') AND l.state = 'intended'
    AND l.owner_kind = 'server' AND l.owner_id = sqlc.arg(server_id)::uuid
    AND o.server_id = sqlc.arg(server_id)::uuid AND o.kind = 'live-migration' AND o.state IN ('accepted', 'running')
    AND s.current_operation = o.id AND s.host_id <> sqlc.arg(destination)::uuid AND s.deleted_at IS NULL
LIMIT 1;

-- name: CallGranted :one
-- Whether a certificate is good, and its host and another one, which asks, both have something of a server
-- on which an operation runs, or room for it: hosts that call each other for it.
WITH concerned AS (
    SELECT s.host_id::text AS host FROM servers s WHERE s.id = sqlc.arg(server_id)::uuid
    UNION SELECT k.host_id::text FROM claims k WHERE k.server_id = sqlc.arg(server_id)::uuid
    UNION SELECT l.place FROM ledger l WHERE l.owner_kind = 'server' AND l.owner_id = sqlc.arg(server_id)::uuid AND l.state <> 'released'
)
SELECT (EXISTS (SELECT FROM host_certificates c JOIN concerned n ON n.host = c.host_id::text
        WHERE c.serial = sqlc.arg(serial) AND c.revoked_at IS NULL AND c.not_after > now() AND c.host_id <> sqlc.arg(asks)::uuid)
    AND EXISTS (SELECT FROM concerned n WHERE n.host = (sqlc.arg(asks)::uuid)::text)
    AND EXISTS (SELECT FROM operations o WHERE o.id = sqlc.arg(operation_id) AND o.server_id = sqlc.arg(server_id)::uuid
        AND o.state IN ('accepted', 'running')))::boolean AS granted;
