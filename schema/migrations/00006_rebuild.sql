-- +goose Up

-- A disk that took the place of another has a file name of its own: both files
-- exist beside each other until it is decided which stays. '': the role's name.
ALTER TABLE server_disks ADD COLUMN file text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE server_disks DROP COLUMN file;
