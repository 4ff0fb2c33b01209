-- +goose Up
-- A port of the network service is one server's: of two that bind a free one at the same moment, Neutron
-- lets both seem to get it. The server's row may come later in the same transaction.
CREATE TABLE server_ports (
    port_id   uuid PRIMARY KEY,
    server_id uuid NOT NULL REFERENCES servers (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX server_ports_server ON server_ports (server_id);

-- +goose Down
DROP TABLE server_ports;
