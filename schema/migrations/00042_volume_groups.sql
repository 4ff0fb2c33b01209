-- +goose Up

-- How much a host's volume group has for servers, in MiB. NULL: it has none, or its worker is of an
-- earlier release: servers whose disks are volumes are claimed against disk_gb there.
ALTER TABLE hosts ADD COLUMN group_mb bigint;
ALTER TABLE claims ADD COLUMN group_mb bigint NOT NULL DEFAULT 0;

-- Servers all of whose disks are volumes take nothing of the file system. 16 MiB are a header of LUKS2's, 4 an extent.
UPDATE claims c SET group_mb = d.mb, disk_gb = 0
FROM (SELECT server_id, sum((size_mb + CASE encryption_format WHEN 'luksv2' THEN 16 ELSE 0 END + 3) / 4 * 4) AS mb
    FROM server_disks GROUP BY server_id HAVING bool_and(encrypted AND encryption_format IN ('luksv2', 'plain'))) d
WHERE d.server_id = c.server_id;

-- +goose Down
UPDATE claims SET disk_gb = disk_gb + ((group_mb + 1023) / 1024)::int;
ALTER TABLE claims DROP COLUMN group_mb;
ALTER TABLE hosts DROP COLUMN group_mb;
