-- +goose Up
-- Notifications that the message broker has not taken yet (SH-24). A row is written in the
-- transaction of what it tells, and deleted once the broker has confirmed it.
CREATE TABLE notifications (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- in this order they are sent
    id uuid NOT NULL UNIQUE, -- derived from the operation and the event
    event_type text NOT NULL,
    priority text NOT NULL CHECK (priority IN ('INFO', 'ERROR')),
    message text NOT NULL, -- the body, in JSON
    created_at timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
DROP TABLE notifications;
