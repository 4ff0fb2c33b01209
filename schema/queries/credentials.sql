-- name: InsertCredential :exec
-- The operations of one request share it.
INSERT INTO credentials (id, project_id, user_id, sealed) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING;

-- name: OfferCredential :execrows
-- A token for what waits in its project. While another offer stands, none is needed.
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
DELETE FROM credentials WHERE id = $1 AND offered;

-- name: Offers :many
SELECT id, project_id, user_id FROM credentials WHERE offered ORDER BY created_at LIMIT 1000;

-- name: Trusts :many
SELECT id, project_id, user_id FROM credentials WHERE trust_id IS NOT NULL ORDER BY created_at;

-- name: ProjectWaits :one
-- Whether something of a project waits for a credential, and nobody offered one. A
-- cached image waits for its host.
SELECT (EXISTS (SELECT 1 FROM ledger l WHERE l.state = 'waiting' AND l.project_id = $1 AND l.kind <> 'cached_image')
    AND NOT EXISTS (SELECT 1 FROM credentials c WHERE c.project_id = $1 AND c.offered))::boolean AS waits;

-- name: WaitThing :exec
-- It is to go, and nobody's credential could remove it, or its host is away: again
-- later, at growing intervals.
UPDATE ledger SET state = 'waiting', refused = sqlc.arg(refused)::text, tries = tries + 1,
    try_at = now() + least(interval '15 seconds' * power(2, least(tries, 10)), interval '1 hour'), updated_at = now()
WHERE kind = $1 AND place = $2 AND name = $3 AND state <> 'released';

-- name: ForsakeImages :exec
-- An image that was announced for an operation which is over, and never began, is to go.
UPDATE ledger SET state = 'waiting', refused = sqlc.arg(refused)::text, try_at = now(), updated_at = now()
WHERE server_id = sqlc.arg(server_id) AND operation_id = sqlc.arg(operation_id) AND kind = 'image' AND state = 'intended';

-- name: WaitingThings :many
-- What is to be tried now: its time has come, or somebody of its project offered
-- a credential. What a running operation is at is left to it, and a trust stays
-- while its server's keys wait: it may remove them.
SELECT l.* FROM ledger l JOIN servers s ON s.id = l.server_id
WHERE l.state = 'waiting' AND s.current_operation = ''
    AND NOT (l.kind = 'trust' AND EXISTS (
        SELECT 1 FROM ledger k WHERE k.server_id = l.server_id AND k.kind NOT IN ('trust', 'cached_image') AND k.state = 'waiting'))
    AND (l.try_at <= now() OR l.kind <> 'cached_image' AND EXISTS (SELECT 1 FROM credentials c WHERE c.project_id = l.project_id AND c.offered))
ORDER BY l.server_id, l.created_at, l.id LIMIT 500;

-- name: ProjectsWith :many
-- The projects that have, or lately had, things of a kind.
SELECT DISTINCT project_id FROM ledger
WHERE kind = $1 AND (state <> 'released' OR released_at > now() - interval '7 days')
ORDER BY project_id;
