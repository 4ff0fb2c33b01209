-- +goose Up
CREATE TABLE server_groups (
    id           uuid PRIMARY KEY,
    number       bigint NOT NULL GENERATED ALWAYS AS IDENTITY UNIQUE, -- the order of lists
    project_id   text NOT NULL,
    user_id      text NOT NULL,
    name         text NOT NULL,
    policy       text NOT NULL CHECK (policy IN ('affinity', 'anti-affinity', 'soft-affinity', 'soft-anti-affinity')),
    max_per_host integer CHECK (max_per_host > 0), -- NULL: one, as far as the policy limits them at all
    created_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX server_groups_project ON server_groups (project_id, number);

-- What the create of a server asked of its host, beside what flavor and image say. All of it but the host
-- holds for every move, too. A server that has no row asked for nothing.
CREATE TABLE server_hints (
    server_id      uuid PRIMARY KEY REFERENCES servers (id) ON DELETE CASCADE,
    group_id       uuid REFERENCES server_groups (id) ON DELETE SET NULL,
    different_host uuid[] NOT NULL DEFAULT '{}', -- servers
    same_host      uuid[] NOT NULL DEFAULT '{}', -- servers
    host_id        uuid,                         -- the host that the operation requested_by goes to; there may be no such host any more
    requested_by   text NOT NULL DEFAULT ''
);
CREATE INDEX server_hints_group ON server_hints (group_id) WHERE group_id IS NOT NULL;

-- +goose Down
DROP TABLE server_hints, server_groups;
