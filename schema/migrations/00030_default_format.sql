-- +goose Up

-- The encryption format of disks for which nobody asks for one, as the host says; '': its worker
-- is of an earlier release, which makes luks.
ALTER TABLE hosts ADD COLUMN default_format varchar(128) NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE hosts DROP COLUMN default_format;
