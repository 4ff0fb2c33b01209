-- +goose Up
-- Pages of servers in the orders that clients ask for most: by age, which is the default, and
-- by name. A page reads what it shows, however many servers there are (P24).
DROP INDEX servers_project;
CREATE INDEX servers_project ON servers (project_id, created_at, number) WHERE deleted_at IS NULL;
CREATE INDEX servers_project_name ON servers (project_id, name, number) WHERE deleted_at IS NULL;
CREATE INDEX servers_age ON servers (created_at, number) WHERE deleted_at IS NULL;
CREATE INDEX servers_name ON servers (name, number) WHERE deleted_at IS NULL;

-- +goose Down
DROP INDEX servers_project, servers_project_name, servers_age, servers_name;
CREATE INDEX servers_project ON servers (project_id, created_at DESC) WHERE deleted_at IS NULL;
