-- +goose Up

-- Keys of images do not go while too many images are gone at once: an operator says that they are.
ALTER TABLE image_keys ADD COLUMN confirmed boolean NOT NULL DEFAULT false; -- an operator said that the image is gone

-- +goose Down
ALTER TABLE image_keys DROP COLUMN confirmed;
