-- +goose Up

-- Volume types: what kinds of volumes there are, and who may see which.
CREATE TABLE volume_types (
    id          uuid PRIMARY KEY,
    name        text NOT NULL UNIQUE,
    description text,
    is_public   boolean NOT NULL DEFAULT true,
    created_at  timestamptz NOT NULL DEFAULT now(),
    -- Moved by a change of the columns above alone. A list can be sorted by it, so a
    -- change of extra specs, which some callers may not see, leaves it as it is.
    updated_at  timestamptz
);

CREATE TABLE volume_type_extra_specs (
    volume_type_id uuid NOT NULL REFERENCES volume_types (id) ON DELETE CASCADE,
    key            text NOT NULL,
    value          text, -- the API takes null for a value
    PRIMARY KEY (volume_type_id, key)
);

-- Which projects see a private type.
CREATE TABLE volume_type_access (
    volume_type_id uuid NOT NULL REFERENCES volume_types (id) ON DELETE CASCADE,
    project_id     text NOT NULL,
    PRIMARY KEY (volume_type_id, project_id)
);

-- How the volumes of a type are encrypted. A type has one at most.
CREATE TABLE volume_type_encryption (
    volume_type_id   uuid PRIMARY KEY REFERENCES volume_types (id) ON DELETE CASCADE,
    id               uuid NOT NULL UNIQUE,
    provider         text NOT NULL,
    control_location text NOT NULL,
    cipher           text,
    key_size         integer CHECK (key_size >= 0),
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz
);

-- Who changed what. A row is written with the change and outlives its type.
CREATE TABLE volume_type_changes (
    number         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    volume_type_id uuid NOT NULL,
    name           text NOT NULL, -- the type's, after the change
    action         text NOT NULL, -- volume_type.create, volume_type_extra_specs.update …
    before         jsonb NOT NULL DEFAULT '{}',
    after          jsonb NOT NULL DEFAULT '{}',
    request_id     text NOT NULL,
    user_id        text NOT NULL,
    project_id     text NOT NULL,
    made_at        timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX volume_type_changes_type ON volume_type_changes (volume_type_id, number);

-- +goose Down
DROP TABLE volume_type_changes, volume_type_encryption, volume_type_access, volume_type_extra_specs, volume_types;
