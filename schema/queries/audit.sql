-- name: StartAudit :one
INSERT INTO audits (id, project_id, started_at) VALUES ($1, $2, clock_timestamp()) RETURNING started_at;

-- name: EndAudit :exec
DELETE FROM audits WHERE id = $1;

-- name: EndOldAudits :exec
DELETE FROM audits WHERE started_at < now() - interval '1 day';

-- name: GetAudit :one
SELECT started_at, project_id FROM audits WHERE id = $1;

-- name: AuditHosts :many
-- volume: it has a volume with its own state, or had one when something was last heard of it.
SELECT h.id, h.name, h.last_seen, h.forced_down, (EXISTS (SELECT FROM secure_volumes v WHERE v.host_id = h.id)
    OR EXISTS (SELECT FROM ledger l WHERE l.place = h.id::text AND l.kind IN ('volume_mapping', 'volume_mount') AND l.state <> 'released'))::boolean AS volume
FROM hosts h WHERE h.forgotten_at IS NULL ORDER BY h.name;

-- name: LongOperations :many
-- Those of a project (empty: of all) that are in the same step for so many seconds, the longest first. A drain waits for its servers.
SELECT sqlc.embed(o), coalesce(s.project_id, o.project_id)::text AS project, coalesce(e.event, '')::text AS event, coalesce(e.started_at, o.started_at)::timestamptz AS since
FROM operations o LEFT JOIN servers s ON s.id = o.server_id LEFT JOIN LATERAL (
    SELECT event, started_at FROM operation_events WHERE operation_id = o.id AND finished_at IS NULL ORDER BY number DESC LIMIT 1
) e ON true
WHERE o.state = 'running' AND o.kind <> 'drain' AND sqlc.arg(project)::text IN ('', coalesce(s.project_id, o.project_id))
    AND coalesce(e.started_at, o.started_at) < now() - make_interval(secs => sqlc.arg(seconds)::float8)
ORDER BY since LIMIT sqlc.arg(most);

-- name: ProjectsWith :many
-- The projects that have, or lately had, things of a kind; or one of them alone.
SELECT DISTINCT project_id FROM ledger
WHERE kind = sqlc.arg(kind) AND project_id > sqlc.arg(after) AND sqlc.arg(project)::text IN ('', project_id)
    AND (state <> 'released' OR released_at > now() - interval '7 days')
ORDER BY project_id LIMIT sqlc.arg(most);

-- name: OpenNames :many
-- Those of a project (empty: of all). late: also users' own things that were removed lately, which the service may have taken up afterwards (WaitAgain).
SELECT o.name FROM ledger o
WHERE o.place = sqlc.arg(place) AND o.kind = sqlc.arg(kind) AND o.name > sqlc.arg(after) AND sqlc.arg(project)::text IN ('', o.project_id)
    AND o.state NOT IN ('released', 'handed_over')
UNION
SELECT r.name FROM ledger r
WHERE r.place = sqlc.arg(place) AND r.kind = sqlc.arg(kind) AND r.name > sqlc.arg(after) AND sqlc.arg(project)::text IN ('', r.project_id)
    AND r.state = 'released' AND sqlc.arg(late)::boolean AND r.name LIKE '%/%'
    AND r.released_at > now() - interval '1 day'
ORDER BY name LIMIT sqlc.arg(most);

-- name: WaitAgain :many
-- Users' own things that were removed and are seen in use for the same servers, as their names say (<thing>/<server>): they wait to be removed once more.
UPDATE ledger l SET state = 'waiting', blocked_by = 'time', reason = 'it was bound late, after it had been unbound', tries = 0,
    released_at = NULL, waiting_since = now(), try_at = now(), updated_at = now()
WHERE l.id IN (SELECT DISTINCT ON (r.name) r.id FROM ledger r
        WHERE r.kind = sqlc.arg(kind) AND r.place = sqlc.arg(place) AND r.name = ANY(sqlc.arg(names)::text[]) AND r.name LIKE '%/%' AND r.state = 'released'
            AND r.released_at > now() - interval '1 day'
        ORDER BY r.name, r.released_at DESC)
    AND NOT EXISTS (SELECT FROM ledger o WHERE o.kind = l.kind AND o.place = l.place AND o.name = l.name AND o.state <> 'released')
RETURNING l.name;

-- name: OpenThingsNamed :many
-- At any of the places. The LIMIT makes it one look into ledger_open for each name: otherwise all things of the
-- place are read for each page of names, which is quadratic.
SELECT l.id, n.name::text AS name FROM unnest(sqlc.arg(names)::text[]) AS n (name)
CROSS JOIN LATERAL (
    SELECT t.id FROM ledger t
    WHERE t.place = ANY(sqlc.arg(places)::text[]) AND t.kind = sqlc.arg(kind) AND t.name = n.name AND t.state <> 'released' LIMIT 1
) l;

-- name: NamesReleasedSince :many
-- What was removed since the audit began, and may have been seen before.
SELECT DISTINCT name FROM ledger
WHERE state = 'released' AND released_at >= sqlc.arg(since)::timestamptz
    AND place = ANY(sqlc.arg(places)::text[]) AND kind = sqlc.arg(kind) AND name = ANY(sqlc.arg(names)::text[]);

-- name: NoteSeen :exec
INSERT INTO audit_seen (audit_id, ledger_id) SELECT sqlc.arg(audit_id), unnest(sqlc.arg(things)::uuid[]) ON CONFLICT DO NOTHING;

-- name: NoteLooked :exec
INSERT INTO audit_looked (audit_id, place, project) SELECT sqlc.arg(audit_id), sqlc.arg(place), unnest(sqlc.arg(projects)::text[])
ON CONFLICT DO NOTHING;

-- name: AuditPage :many
-- Open rows, with what the audit saw of them. Busy: an operation is at work on the owner, or
-- was since the audit began; a server whose power state alone was noted is not. A row that waits
-- tells nothing that was looked at, so it may change. project: whose it is, whoever asked for it.
SELECT sqlc.embed(l), coalesce(s.project_id, l.project_id)::text AS project,
    (coalesce(s.deleted_at IS NOT NULL, false) OR coalesce(o.finished_at IS NOT NULL, false)
        OR l.owner_kind = 'volume' AND NOT EXISTS (SELECT FROM secure_volumes v WHERE v.id = l.owner_id))::boolean AS owner_deleted,
    (coalesce(s.current_operation <> '', false)
        OR coalesce(o.finished_at IS NULL OR o.finished_at >= a.started_at, false) AND o.id IS NOT NULL
        OR EXISTS (SELECT FROM operations w WHERE w.subject_kind = l.owner_kind AND w.subject_id = l.owner_id
            AND (w.finished_at IS NULL OR w.finished_at >= a.started_at))
        OR l.updated_at >= a.started_at AND l.state <> 'waiting')::boolean AS busy,
    -- no EXISTS: PostgreSQL would read all that was seen for each page
    ((SELECT true FROM audit_seen n WHERE n.audit_id = a.id AND n.ledger_id = l.id) IS NOT NULL)::boolean AS seen,
    -- a key that Nova made is in no list of what strongroom made (compute.LegacyKeyPrefix)
    (l.name NOT LIKE 'strongroom legacy key %'
        AND EXISTS (SELECT FROM audit_looked n WHERE n.audit_id = a.id AND n.place = l.place AND n.project IN ('*', l.project_id)))::boolean AS looked,
    coalesce((SELECT max(k.kept) FROM image_keys k
        WHERE l.kind = 'key_secret' AND l.state = 'handed_over' AND k.operation_id = l.operation_id AND k.made), '')::text AS kept,
    (l.kind = 'share_access' AND EXISTS (SELECT FROM server_shares m
        WHERE m.server_id = l.owner_id AND l.name = m.share_id::text || '/' || m.server_id::text AND m.held_at IS NOT NULL))::boolean AS held,
    (l.host_id IS NOT NULL AND NOT EXISTS (SELECT FROM hosts h WHERE h.id = l.host_id AND NOT h.forced_down AND h.forgotten_at IS NULL))::boolean AS host_given_up
FROM audits a CROSS JOIN ledger l
LEFT JOIN servers s ON l.owner_kind = 'server' AND s.id = l.owner_id
LEFT JOIN operations o ON l.owner_kind = 'operation' AND o.id = 'req-' || l.owner_id::text
WHERE a.id = sqlc.arg(audit_id) AND l.state <> 'released' AND a.project_id IN ('', coalesce(s.project_id, l.project_id))
    AND (l.place, l.kind, l.name) > (sqlc.arg(place)::text, sqlc.arg(kind)::text, sqlc.arg(name)::text)
ORDER BY l.place, l.kind, l.name LIMIT sqlc.arg(most);

-- name: ProjectsOfServers :many
-- Whose servers they are or were.
SELECT id, project_id FROM servers WHERE id = ANY(sqlc.arg(ids)::uuid[]);

-- name: CountThings :one
SELECT count(*) FILTER (WHERE state <> 'handed_over') AS open, count(*) FILTER (WHERE state = 'waiting') AS waiting,
    count(*) FILTER (WHERE state = 'handed_over') AS handed_over
FROM ledger WHERE state <> 'released';
