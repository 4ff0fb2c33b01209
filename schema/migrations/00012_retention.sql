-- +goose Up
-- Which projects a host lets into its networks: uuid to projects; one that is not named is everybody's.
ALTER TABLE hosts ADD COLUMN network_projects jsonb;

-- No two servers have the same MAC address. Of those that had before, the first one has the row.
-- The server's row may come later in the same transaction.
CREATE TABLE server_macs (
    mac       text PRIMARY KEY,
    server_id uuid NOT NULL REFERENCES servers (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX server_macs_server ON server_macs (server_id);
INSERT INTO server_macs (mac, server_id)
SELECT n.value ->> 'mac', s.id FROM servers s, jsonb_array_elements(s.networks) n
WHERE s.deleted_at IS NULL AND n.value ->> 'mac' IS NOT NULL
ORDER BY s.created_at
ON CONFLICT DO NOTHING;

-- Deleted servers are purged in the order in which they were deleted.
CREATE INDEX servers_deleted ON servers (deleted_at) WHERE deleted_at IS NOT NULL;
-- What nobody can read any more.
UPDATE servers SET user_data = NULL WHERE deleted_at IS NOT NULL AND user_data IS NOT NULL;

-- +goose Down
DROP INDEX servers_deleted;
DROP TABLE server_macs;
ALTER TABLE hosts DROP COLUMN network_projects;
