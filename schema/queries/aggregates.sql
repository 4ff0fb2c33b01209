-- name: InsertAggregate :one
INSERT INTO aggregates (uuid, name, metadata) VALUES ($1, $2, $3) RETURNING *;

-- name: ListAggregates :many
-- All aggregates, or the only one of a number, with the names of their hosts.
SELECT sqlc.embed(a), ARRAY(SELECT h.name FROM aggregate_hosts m JOIN hosts h ON h.id = m.host_id
    WHERE m.aggregate_number = a.number ORDER BY h.name)::text[] AS hosts
FROM aggregates a WHERE a.number = sqlc.narg(number)::bigint OR sqlc.narg(number)::bigint IS NULL ORDER BY a.number;

-- name: LockAggregate :one
-- Of all changes of an aggregate one is made at a time. Its lock comes before those of hosts.
SELECT * FROM aggregates WHERE number = $1 FOR UPDATE;

-- name: ChangeAggregate :exec
UPDATE aggregates SET name = $2, metadata = $3, updated_at = now() WHERE number = $1;

-- name: DeleteAggregate :exec
DELETE FROM aggregates WHERE number = $1;

-- name: AddAggregateHost :execrows
-- 0 rows: it is there.
INSERT INTO aggregate_hosts (aggregate_number, host_id) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: RemoveAggregateHost :execrows
DELETE FROM aggregate_hosts WHERE aggregate_number = $1 AND host_id = $2;

-- name: LeaveAggregates :exec
DELETE FROM aggregate_hosts WHERE host_id = $1;

-- name: LockAggregateHosts :many
-- No server comes to an aggregate's hosts before the transaction ends.
SELECT h.id FROM hosts h JOIN aggregate_hosts m ON m.host_id = h.id WHERE m.aggregate_number = $1 ORDER BY h.id FOR UPDATE OF h;

-- name: ZonesOfHosts :many
SELECT h.id, z.zone::text AS zone FROM hosts h JOIN host_zones z ON z.host_id = h.id WHERE h.id = ANY(sqlc.arg(hosts)::uuid[]) ORDER BY h.id;

-- name: OtherZonesOfHosts :many
-- The availability zones, beside one, in which other aggregates have hosts.
SELECT DISTINCT (a.metadata ->> 'availability_zone')::text AS zone FROM aggregates a JOIN aggregate_hosts m ON m.aggregate_number = a.number
WHERE m.host_id = ANY(sqlc.arg(hosts)::uuid[]) AND a.number <> sqlc.arg(number) AND a.metadata ->> 'availability_zone' <> sqlc.arg(zone)::text ORDER BY 1;

-- name: CountServersOn :one
-- How many servers hosts have, among them those that are coming.
SELECT count(*) FROM (
    SELECT s.id FROM servers s WHERE s.deleted_at IS NULL AND s.host_id = ANY(sqlc.arg(hosts)::uuid[])
    UNION
    SELECT s.id FROM claims c JOIN servers s ON s.id = c.server_id WHERE s.deleted_at IS NULL AND c.host_id = ANY(sqlc.arg(hosts)::uuid[])
) here;
