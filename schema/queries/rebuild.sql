-- name: RebuildServer :execrows
-- The point of no return of a rebuild: the server's image, vTPM and properties from here on.
UPDATE servers SET image_id = sqlc.arg(image_id), image = sqlc.arg(image), tpm = sqlc.narg(tpm),
    required_traits = sqlc.arg(required_traits), forbidden_traits = sqlc.arg(forbidden_traits),
    name = coalesce(sqlc.narg(name), name), hostname = coalesce(sqlc.narg(hostname), hostname),
    metadata = sqlc.arg(metadata), disk_config = coalesce(sqlc.narg(disk_config), disk_config),
    access_ip_v4 = coalesce(sqlc.narg(access_ip_v4), access_ip_v4), access_ip_v6 = coalesce(sqlc.narg(access_ip_v6), access_ip_v6),
    description = CASE WHEN sqlc.arg(describe)::boolean THEN sqlc.narg(description) ELSE description END,
    key_name = CASE WHEN sqlc.arg(set_key)::boolean THEN sqlc.narg(key_name) ELSE key_name END,
    key_data = CASE WHEN sqlc.arg(set_key)::boolean THEN sqlc.narg(key_data) ELSE key_data END,
    user_data = CASE WHEN sqlc.arg(set_user_data)::boolean THEN sqlc.narg(user_data) ELSE user_data END,
    updated_at = now()
WHERE id = sqlc.arg(id) AND current_operation = sqlc.arg(operation_id);

-- name: ReplaceServerDisk :exec
-- A disk in the place of the one that had its role and index. Its tag stays.
UPDATE server_disks SET id = sqlc.arg(id), device_name = sqlc.arg(device_name), bus = sqlc.arg(bus), file = sqlc.arg(file), size_mb = sqlc.arg(size_mb), image_id = sqlc.narg(image_id),
    encrypted = sqlc.arg(encrypted), encryption_secret_uuid = sqlc.narg(secret), backing_encryption_secret_uuid = sqlc.narg(backing_secret),
    encryption_format = sqlc.arg(encryption_format), encryption_options = sqlc.arg(encryption_options), whole = sqlc.arg(whole)
WHERE server_id = sqlc.arg(server_id) AND role = sqlc.arg(role) AND index = sqlc.arg(index);
