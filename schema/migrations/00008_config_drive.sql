-- +goose Up

-- Servers that were made before there were config drives have none, whatever they
-- asked for. Those whose create has not begun yet will get theirs.
UPDATE servers s SET config_drive = false
WHERE config_drive AND NOT EXISTS (
    SELECT FROM operations o WHERE o.id = s.current_operation AND o.kind = 'create' AND o.state = 'accepted');

-- +goose Down
-- What they had asked for is not known any more, and nothing needs it.
