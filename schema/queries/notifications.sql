-- name: LockNotifications :exec
-- Held to the end of the transaction, so that the notifications of a server are numbered in the
-- order in which they are committed.
SELECT pg_advisory_xact_lock(12, hashtext(sqlc.arg(server_id)::uuid::text));

-- name: InsertNotification :exec
INSERT INTO notifications (id, event_type, priority, message) VALUES ($1, $2, $3, sqlc.arg(message)::text) ON CONFLICT (id) DO NOTHING;

-- name: TryLockOutbox :one
-- Whether no other control worker sends notifications; held to the end of the transaction.
SELECT pg_try_advisory_xact_lock(13, 0) AS locked;

-- name: NextNotifications :many
SELECT * FROM notifications ORDER BY number LIMIT sqlc.arg(most);

-- name: DeleteNotifications :exec
DELETE FROM notifications WHERE number = ANY(sqlc.arg(numbers)::bigint[]);

-- name: TellServerUpdates :exec
-- Whether changes of servers go into the outbox, from now on.
INSERT INTO notification_settings (instance_updates) VALUES ($1)
ON CONFLICT (single) DO UPDATE SET instance_updates = excluded.instance_updates;
