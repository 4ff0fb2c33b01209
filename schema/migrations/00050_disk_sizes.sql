-- +goose Up
-- A disk has no more than the 2,147,483,647 GiB that a flavor can say. What has another size was never made: no host makes a disk of a negative size,
-- or has room for such a one. Its row gets a size that later changes of it may keep.
UPDATE server_disks SET size_mb = greatest(0, least(size_mb, 2199023254528)) WHERE size_mb NOT BETWEEN 0 AND 2199023254528;
ALTER TABLE server_disks ADD CONSTRAINT server_disks_size CHECK (size_mb BETWEEN 0 AND 2199023254528);

-- +goose Down
ALTER TABLE server_disks DROP CONSTRAINT server_disks_size;
