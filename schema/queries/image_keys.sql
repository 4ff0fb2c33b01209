-- name: RecordImageKey :exec
-- The secret of an image. What is known of it already stays.
INSERT INTO image_keys (image_id, operation_id, project_id, secret, made, policy, look_at)
VALUES ($1, $2, $3, $4, $5, $6, now()) ON CONFLICT (image_id) DO NOTHING;

-- name: AdoptImageKeys :execrows
-- Secrets that an earlier release made for images.
INSERT INTO image_keys (image_id, operation_id, project_id, secret, made)
SELECT i.name::uuid, i.operation_id, i.project_id, k.reference::uuid, true
FROM ledger i JOIN ledger k ON k.operation_id = i.operation_id AND k.kind = 'key_secret' AND k.state = 'handed_over'
WHERE i.kind = 'image' AND i.state = 'handed_over'
    AND k.reference ~ '^[0-9a-f-]{36}$' AND i.name ~ '^[0-9a-f-]{36}$'
    AND NOT EXISTS (SELECT FROM image_keys n WHERE n.image_id::text = i.name)
ON CONFLICT (image_id) DO NOTHING;

-- name: LockSecretThings :many
-- The open rows of a secret, by its id or, where that is not on record yet, by its name. Whoever
-- is about to use the secret of an image, and whoever is about to delete it, wait here for each other.
SELECT * FROM ledger
WHERE kind = 'key_secret' AND state <> 'released' AND reference = sqlc.arg(secret)::uuid::text
    OR kind = 'key_secret' AND place = 'key-manager' AND state <> 'released' AND name = sqlc.arg(name) AND sqlc.arg(name)::text <> ''
FOR UPDATE;

-- name: IsSecretOfServer :one
-- Whether a secret is that of a disk, or of a vTPM, of a server that is there. A server is rescued
-- with an image's.
SELECT (EXISTS (SELECT FROM server_disks d JOIN servers s ON s.id = d.server_id
        WHERE s.deleted_at IS NULL AND d.role <> 'rescue' AND d.encryption_secret_uuid = sqlc.arg(secret)::uuid)
    OR EXISTS (SELECT FROM server_disks d JOIN servers s ON s.id = d.server_id
        WHERE s.deleted_at IS NULL AND d.backing_encryption_secret_uuid = sqlc.arg(secret)::uuid)
    OR EXISTS (SELECT FROM servers s WHERE s.deleted_at IS NULL AND s.ephemeral_key_uuid = sqlc.arg(secret)::uuid)
    OR EXISTS (SELECT FROM ledger l WHERE l.kind = 'key_secret' AND l.reference = sqlc.arg(secret)::uuid::text
        AND l.state NOT IN ('released', 'handed_over')))::boolean;

-- name: IsSecretOfImage :one
-- Whether a secret is that of an image, whoever made it. A key of Nova's whose import failed is handed over, too, and is none.
SELECT (EXISTS (SELECT FROM image_keys k WHERE k.secret = sqlc.arg(secret)::uuid)
    OR EXISTS (SELECT FROM ledger l WHERE l.kind = 'key_secret' AND l.reference = sqlc.arg(secret)::uuid::text
        AND l.state = 'handed_over' AND l.name NOT LIKE 'strongroom legacy key %'))::boolean;

-- name: IsSecretOfProject :one
-- Whether the ledger has a secret of the project that no image has.
SELECT EXISTS (SELECT FROM ledger l WHERE l.kind = 'key_secret' AND l.reference = sqlc.arg(secret)::uuid::text
    AND l.project_id = sqlc.arg(project_id) AND l.state NOT IN ('released', 'handed_over'))::boolean;

-- name: IsSecretNamed :one
-- Whether another image, or a disk, uses the secret of an image.
SELECT (EXISTS (SELECT FROM image_keys k JOIN ledger i ON i.kind = 'image' AND i.place = 'image-store' AND i.name = k.image_id::text AND i.state <> 'released'
        WHERE k.secret = sqlc.arg(secret)::uuid AND k.image_id <> sqlc.arg(image_id)::uuid)
    OR EXISTS (SELECT FROM server_disks d JOIN servers s ON s.id = d.server_id
        WHERE s.deleted_at IS NULL AND d.encryption_secret_uuid = sqlc.arg(secret)::uuid)
    OR EXISTS (SELECT FROM server_disks d JOIN servers s ON s.id = d.server_id
        WHERE s.deleted_at IS NULL AND d.backing_encryption_secret_uuid = sqlc.arg(secret)::uuid)
    OR EXISTS (SELECT FROM servers s WHERE s.deleted_at IS NULL AND s.ephemeral_key_uuid = sqlc.arg(secret)::uuid))::boolean;

-- name: DueImageKeys :many
-- Images that the image store is to be asked about: their time has come, or somebody of their
-- project offered a credential since every other one was refused. was_gone: it was first seen to be
-- gone a whole grace ago.
SELECT d.image_id, d.project_id, d.secret, d.made, d.policy, d.confirmed,
    coalesce(d.gone_at <= now() - make_interval(secs => sqlc.arg(grace)::float8), false)::boolean AS was_gone FROM (
    (SELECT k.* FROM image_keys k WHERE k.look_at <= now() ORDER BY k.look_at LIMIT sqlc.arg(most))
    UNION
    (SELECT k.* FROM image_keys k JOIN credentials c ON c.project_id = k.project_id AND c.offered AND c.created_at > k.refused_at
        WHERE k.refused_at IS NOT NULL LIMIT sqlc.arg(most))
) d ORDER BY d.look_at, d.image_id LIMIT sqlc.arg(most);

-- name: ImageIsThere :exec
UPDATE image_keys SET policy = sqlc.arg(policy), refused_at = NULL, gone_at = NULL, kept = '', confirmed = false,
    look_at = now() + make_interval(secs => sqlc.arg(again)::float8)
WHERE image_id = sqlc.arg(image_id);

-- name: ImageIsGone :exec
UPDATE image_keys SET refused_at = NULL, gone_at = coalesce(gone_at, now()), look_at = coalesce(gone_at, now()) + make_interval(secs => sqlc.arg(again)::float8)
WHERE image_id = sqlc.arg(image_id);

-- name: ImagesRefused :exec
-- No credential of a project lets strongroom look at its images. That of a passing request, where
-- it was refused, too, is followed by another one a minute later.
UPDATE image_keys SET refused_at = CASE WHEN sqlc.arg(offered)::boolean THEN clock_timestamp() ELSE coalesce(refused_at, clock_timestamp()) END, look_at = now() + make_interval(secs => sqlc.arg(again)::float8)
WHERE project_id = sqlc.arg(project_id) AND (look_at <= now() OR refused_at IS NOT NULL);

-- name: LookAtImagesLater :exec
UPDATE image_keys SET look_at = now() + make_interval(secs => sqlc.arg(again)::float8)
WHERE image_id = ANY(sqlc.arg(images)::uuid[]) AND look_at <= now();

-- name: LockImageKey :one
SELECT * FROM image_keys WHERE image_id = $1 FOR UPDATE;

-- name: KeepImageKey :exec
-- The image is gone and its secret stays. again is when to ask once more whether it must; NULL: never.
UPDATE image_keys SET kept = sqlc.arg(kept), refused_at = NULL, look_at = now() + make_interval(secs => sqlc.narg(again)::float8)
WHERE image_id = sqlc.arg(image_id);

-- name: ForgetImageKey :exec
DELETE FROM image_keys WHERE image_id = $1;

-- name: CountImageKeys :one
-- Of the images whose keys would go with them and at which somebody may look: how many there are, and
-- how many of them are gone without an operator having said so.
SELECT count(*) AS watched, count(*) FILTER (WHERE gone_at IS NOT NULL) AS gone FROM image_keys
WHERE made AND policy = sqlc.arg(goes) AND refused_at IS NULL AND NOT confirmed AND kept IN ('', sqlc.arg(held)::text);

-- name: HeldImageKeys :many
-- Keys that stay because too many images are gone at once.
SELECT image_id, project_id, secret, gone_at FROM image_keys WHERE kept = sqlc.arg(held) AND NOT confirmed ORDER BY project_id, image_id;

-- name: ConfirmImageKeys :many
-- An operator says that these images are gone: the next look decides.
UPDATE image_keys SET confirmed = true, look_at = now() WHERE kept = sqlc.arg(held) AND image_id = ANY(sqlc.arg(images)::uuid[])
RETURNING image_id;
