-- +goose Up
-- The ports of networks.backend local: strongroom is its own network service then. A port's hardware address follows
-- from its address, so that whoever gives out addresses by it needs to be told nothing.
CREATE TABLE local_ports (
    id         uuid PRIMARY KEY,
    project_id text NOT NULL,
    name       text NOT NULL,
    network_id uuid NOT NULL, -- of the configuration
    address    text NOT NULL,
    mac        text NOT NULL CONSTRAINT local_ports_mac UNIQUE,
    server_id  uuid,                        -- whose it is; NULL: nobody's
    host       text NOT NULL DEFAULT '',    -- to which it is bound; '': none
    prepared   text[] NOT NULL DEFAULT '{}', -- hosts to which it has a binding that is not active
    CONSTRAINT local_ports_name UNIQUE (project_id, name),
    CONSTRAINT local_ports_address UNIQUE (network_id, address),
    CONSTRAINT local_ports_bound CHECK (server_id IS NOT NULL OR host = '' AND prepared = '{}')
);

-- +goose Down
DROP TABLE local_ports;
