-- +goose Up
-- How many changes of a server's ports the network service told of that nobody has looked at since.
ALTER TABLE servers ADD COLUMN network_changes integer NOT NULL DEFAULT 0;
CREATE INDEX servers_network_changes ON servers (id) WHERE network_changes > 0;

-- +goose Down
ALTER TABLE servers DROP COLUMN network_changes;
