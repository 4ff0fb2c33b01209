-- +goose Up
-- A disk has no more than the 2,147,483,647 GiB that a flavor can say. Rows that are there are not looked at: a delete must be able to remove them.
ALTER TABLE server_disks ADD CONSTRAINT server_disks_size CHECK (size_mb BETWEEN 0 AND 2199023255552) NOT VALID;

-- +goose Down
ALTER TABLE server_disks DROP CONSTRAINT server_disks_size;
