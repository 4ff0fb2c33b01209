-- +goose Up

-- Servers that were made before there were config drives have none, whatever they
-- asked for. Those whose create has not begun yet will get theirs. What the others asked
-- for is noted, for the way back.
WITH without AS (
    UPDATE servers s SET config_drive = false
    WHERE config_drive AND NOT EXISTS (
        SELECT FROM operations o WHERE o.id = s.current_operation AND o.kind = 'create' AND o.state = 'accepted')
    RETURNING s.id)
INSERT INTO server_system_metadata (server_id, key, value) SELECT id, 'config_drive_asked', 'True' FROM without;

-- +goose Down
-- Where the migration ran before it noted anything, there is nothing to bring back.
UPDATE servers SET config_drive = true WHERE id IN (SELECT server_id FROM server_system_metadata WHERE key = 'config_drive_asked');
DELETE FROM server_system_metadata WHERE key = 'config_drive_asked';
