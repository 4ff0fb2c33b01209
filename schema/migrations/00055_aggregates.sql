-- +goose Up
-- Groups of hosts that the compute API keeps (os-aggregates).
CREATE TABLE aggregates (
    number     bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, -- the API's id
    uuid       uuid NOT NULL UNIQUE,
    name       text NOT NULL UNIQUE,
    metadata   jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'), -- texts; availability_zone is one of them
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz
);

CREATE TABLE aggregate_hosts (
    aggregate_number bigint NOT NULL REFERENCES aggregates (number),
    host_id          uuid NOT NULL REFERENCES hosts (id) ON DELETE CASCADE,
    PRIMARY KEY (aggregate_number, host_id)
);
CREATE INDEX aggregate_hosts_host ON aggregate_hosts (host_id);

-- The availability zone that each host is in, and what the metadata of its aggregates say, as key=value: no key has an equals sign.
-- The zone of an aggregate goes before the one that the host reports. The API lets no host have two.
CREATE VIEW host_zones AS
SELECT h.id AS host_id,
    coalesce((SELECT min(a.metadata ->> 'availability_zone') FROM aggregate_hosts m JOIN aggregates a ON a.number = m.aggregate_number
        WHERE m.host_id = h.id), h.availability_zone)::text AS zone,
    ARRAY(SELECT e.key || '=' || e.value FROM aggregate_hosts m JOIN aggregates a ON a.number = m.aggregate_number,
        jsonb_each_text(a.metadata) AS e (key, value) WHERE m.host_id = h.id ORDER BY 1)::text[] AS aggregate_metadata
FROM hosts h;

-- +goose Down
DROP VIEW host_zones;
DROP TABLE aggregate_hosts, aggregates;
