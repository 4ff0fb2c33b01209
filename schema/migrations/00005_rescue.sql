-- +goose Up

-- A rescue disk is made of an image that is not its server's.
ALTER TABLE server_disks ADD COLUMN source jsonb; -- compute.Image, frozen when the disk was made

-- +goose Down
DELETE FROM server_disks WHERE role = 'rescue';
ALTER TABLE server_disks DROP COLUMN source;
