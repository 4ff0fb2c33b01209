-- +goose Up
-- Changes of servers are told, too (instance.update): a row of the outbox then says what changed instead of
-- having the message, which is made when it is sent.
ALTER TABLE notifications ALTER COLUMN message DROP NOT NULL,
    ADD COLUMN server_id uuid,
    ADD COLUMN change jsonb, -- compute.ServerUpdate
    ADD CONSTRAINT notifications_message_or_change CHECK (message IS NOT NULL OR server_id IS NOT NULL AND change IS NOT NULL);

-- What the control workers' configuration wants told. No row: no changes.
CREATE TABLE notification_settings (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    instance_updates boolean NOT NULL
);

-- +goose StatementBegin
CREATE FUNCTION tell_server_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM notification_settings WHERE instance_updates) THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(12, hashtext(NEW.id::text)); -- as LockNotifications
    INSERT INTO notifications (id, event_type, priority, server_id, change)
    VALUES (gen_random_uuid(), 'instance.update', 'INFO', NEW.id, jsonb_build_object(
        'old_vm_state', OLD.vm_state, 'vm_state', NEW.vm_state, 'old_task_state', OLD.task_state, 'task_state', NEW.task_state,
        'power_state', NEW.power_state, 'old_name', OLD.name, 'name', NEW.name,
        'operation', coalesce(nullif(NEW.current_operation, ''), OLD.current_operation))); -- a settled one has left the row
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER tell_server_insert AFTER INSERT ON servers FOR EACH ROW EXECUTE FUNCTION tell_server_change();
-- What the payload shows of a server, without its progress.
CREATE TRIGGER tell_server_update AFTER UPDATE ON servers FOR EACH ROW
WHEN ((OLD.vm_state, OLD.task_state, OLD.power_state, OLD.name, OLD.description, OLD.hostname, OLD.host_id, OLD.availability_zone, OLD.flavor,
        OLD.image_id, OLD.metadata, OLD.tags, OLD.key_name, OLD.locked_by, OLD.locked_reason, OLD.disk_config, OLD.launched_at)
    IS DISTINCT FROM (NEW.vm_state, NEW.task_state, NEW.power_state, NEW.name, NEW.description, NEW.hostname, NEW.host_id, NEW.availability_zone, NEW.flavor,
        NEW.image_id, NEW.metadata, NEW.tags, NEW.key_name, NEW.locked_by, NEW.locked_reason, NEW.disk_config, NEW.launched_at))
EXECUTE FUNCTION tell_server_change();

-- +goose Down
DROP TRIGGER tell_server_insert ON servers;
DROP TRIGGER tell_server_update ON servers;
DROP FUNCTION tell_server_change();
DROP TABLE notification_settings;
DELETE FROM notifications WHERE message IS NULL;
ALTER TABLE notifications DROP COLUMN server_id, DROP COLUMN change, ALTER COLUMN message SET NOT NULL;
