-- name: InsertCredential :exec
-- The operations of one request share it.
INSERT INTO credentials (id, project_id, user_id, sealed) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING;

-- name: OfferCredential :execrows
-- A request's token for things that wait in its project. One offer in a project is enough.
INSERT INTO credentials (id, project_id, user_id, sealed, offered) VALUES ($1, $2, $3, $4, true)
ON CONFLICT (project_id) WHERE offered DO NOTHING;

-- name: SaveTrust :exec
INSERT INTO credentials (id, project_id, user_id, trust_id) VALUES ($1, $2, $3, $4)
ON CONFLICT (id) DO UPDATE SET trust_id = excluded.trust_id;

-- name: ForgetTrust :exec
DELETE FROM credentials WHERE id = $1 AND trust_id IS NOT NULL;

-- name: GetCredential :one
SELECT * FROM credentials WHERE id = $1;

-- name: LockCredentialOf :exec
-- Of operations that end at once, each sees whether it is the last.
SELECT c.id FROM credentials c JOIN operations o ON o.credential_id = c.id WHERE o.id = $1 FOR UPDATE OF c;

-- name: WipeCredentialOf :exec
-- The token of an operation that has ended, unless another one acts with it.
DELETE FROM credentials c USING operations o
WHERE o.id = $1 AND c.id = o.credential_id AND c.sealed IS NOT NULL AND NOT c.offered
    AND NOT EXISTS (SELECT 1 FROM operations other WHERE other.credential_id = c.id AND other.state IN ('accepted', 'running'));

-- name: WipeOffer :exec
-- One with which images or shares are still to be looked at is kept for it, but not for long.
DELETE FROM credentials c WHERE c.id = $1 AND c.offered AND NOT (c.created_at > now() - interval '1 minute'
    AND (EXISTS (SELECT FROM image_keys k WHERE k.project_id = c.project_id AND k.refused_at < c.created_at)
        OR EXISTS (SELECT FROM share_refusals r WHERE r.project_id = c.project_id AND r.refused_at < c.created_at)));

-- name: Offers :many
SELECT id, project_id, user_id FROM credentials WHERE offered ORDER BY created_at LIMIT 100;

-- name: SpareOffers :one
-- Whether there are offers besides those with which images or shares are still to be looked at.
SELECT EXISTS (SELECT FROM credentials c WHERE c.offered AND NOT (c.created_at > now() - interval '1 minute'
    AND (EXISTS (SELECT FROM image_keys k WHERE k.project_id = c.project_id AND k.refused_at < c.created_at)
        OR EXISTS (SELECT FROM share_refusals r WHERE r.project_id = c.project_id AND r.refused_at < c.created_at))))::boolean;

-- name: OffersIn :many
SELECT id, project_id, user_id FROM credentials WHERE offered AND project_id = ANY(sqlc.arg(projects)::text[]);

-- name: TrustsOf :many
-- Trusts in these projects, a few of each: one that opens the project is enough.
SELECT id, project_id, user_id FROM (
    SELECT c.*, row_number() OVER (PARTITION BY project_id ORDER BY created_at DESC) AS nth
    FROM credentials c WHERE trust_id IS NOT NULL AND project_id = ANY(sqlc.arg(projects)::text[])
) t WHERE nth <= 5 ORDER BY created_at;

-- name: ProjectWaits :one
-- Whether something of a project waits for a credential, for its removal or for a look at an
-- image or a share, and nobody offered one. A credential that could not look at an image is followed by another a
-- minute later; of those that could not look at shares see OfferRefused.
SELECT ((EXISTS (SELECT 1 FROM ledger l WHERE l.state = 'waiting' AND l.project_id = $1 AND l.blocked_by = 'credential')
        OR EXISTS (SELECT 1 FROM image_keys k WHERE k.project_id = $1 AND k.refused_at < now() - interval '1 minute')
        OR EXISTS (SELECT 1 FROM share_refusals r WHERE r.project_id = $1 AND r.offer_at <= now()))
    AND NOT EXISTS (SELECT 1 FROM credentials c WHERE c.project_id = $1 AND c.offered))::boolean AS waits;

-- name: HasCredential :one
-- Whether a credential is on record.
SELECT EXISTS (SELECT FROM credentials WHERE id = $1)::boolean AS there;
