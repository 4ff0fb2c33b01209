-- +goose Up
-- What os-quota-sets wrote for a project, in place of the configured limit: one row for each of the compute API's names of resources. -1: no limit.
CREATE TABLE project_quotas (
    project_id text NOT NULL,
    resource   text NOT NULL,
    most       bigint NOT NULL CHECK (most >= -1),
    PRIMARY KEY (project_id, resource)
);

-- +goose Down
DROP TABLE project_quotas;
