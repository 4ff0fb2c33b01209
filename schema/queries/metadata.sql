-- name: ServerMetadata :one
-- What a guest may know of itself, with its disks in the order of their names.
SELECT s.number, s.project_id, s.name, s.hostname, s.launch_index, s.availability_zone, s.reservation_id, s.flavor, s.image_id,
    s.metadata, s.key_name, s.key_data, s.user_data, s.networks,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('id', d.id, 'role', d.role, 'index', d.index, 'device_name', d.device_name,
            'bus', d.bus, 'encrypted', d.encrypted, 'tag', coalesce(d.tag, '')) ORDER BY d.device_name), '[]')
        FROM server_disks d WHERE d.server_id = s.id)::jsonb AS disks,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('share_id', m.share_id, 'tag', m.tag) ORDER BY m.created_at, m.id), '[]')
        FROM server_shares m WHERE m.server_id = s.id)::jsonb AS shares
FROM servers s WHERE s.id = $1 AND s.deleted_at IS NULL;
