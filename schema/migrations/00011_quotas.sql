-- +goose Up
-- What a server counts against its project's quota (compute.UseOf): columns of
-- their own, so that the sum over a project reads its index alone.
ALTER TABLE servers
    ADD COLUMN vcpus bigint NOT NULL GENERATED ALWAYS AS (coalesce((flavor->>'vcpus')::bigint, 0)) STORED,
    ADD COLUMN memory_mb bigint NOT NULL GENERATED ALWAYS AS (coalesce((flavor->>'memory_mb')::bigint, 0)) STORED,
    ADD COLUMN disk_gb bigint NOT NULL GENERATED ALWAYS AS (
        CASE WHEN (flavor->>'root_gb')::bigint > 0 THEN (flavor->>'root_gb')::bigint
        ELSE (greatest((image->>'size_bytes')::bigint, (image->>'virtual_bytes')::bigint,
            CASE WHEN image->'properties'->>'os_decrypt_size' ~ '^[0-9]{1,18}$' THEN (image->'properties'->>'os_decrypt_size')::bigint ELSE 0 END)
            + 1073741823) / 1073741824 END
        + coalesce((flavor->>'ephemeral_gb')::bigint, 0) + (coalesce((flavor->>'swap_mb')::bigint, 0) + 1023) / 1024) STORED,
    -- Disk that the operation reserved_by takes beyond that. It counts while that
    -- operation has the server, and as long as the server is rescued.
    ADD COLUMN reserved_gb bigint NOT NULL DEFAULT 0,
    ADD COLUMN reserved_by text NOT NULL DEFAULT '';
CREATE INDEX servers_use ON servers (project_id) INCLUDE (vcpus, memory_mb, disk_gb) WHERE deleted_at IS NULL;
CREATE INDEX servers_reserved ON servers (project_id) WHERE deleted_at IS NULL AND reserved_gb > 0;

-- +goose Down
DROP INDEX servers_reserved, servers_use;
ALTER TABLE servers DROP COLUMN reserved_by, DROP COLUMN reserved_gb, DROP COLUMN disk_gb, DROP COLUMN memory_mb, DROP COLUMN vcpus;
