-- +goose Up

-- The namespace of Temporal in which the executions of this database's operations are: at
-- most one row. Its id is another one for each namespace that was ever made, whatever its
-- name; it stays when Temporal fails over to another cluster.
CREATE TABLE temporal_namespace (
    single     boolean PRIMARY KEY DEFAULT true CHECK (single),
    id         text NOT NULL,
    name       text NOT NULL,
    adopted_at timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
DROP TABLE temporal_namespace;
