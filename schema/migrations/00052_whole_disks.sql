-- +goose Up
-- An encrypted disk that has all of its image's data in itself: no file of the image is under it.
ALTER TABLE server_disks ADD COLUMN whole boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE server_disks DROP COLUMN whole;
