-- +goose Up

-- Compute hosts, as they report themselves.
CREATE TABLE hosts (
    id               uuid PRIMARY KEY,
    number           bigint NOT NULL GENERATED ALWAYS AS IDENTITY UNIQUE, -- the API's integer id below 2.53
    name             text NOT NULL UNIQUE,
    address          text NOT NULL DEFAULT '',
    agent_url        text NOT NULL DEFAULT '', -- where the host worker serves console logs
    traits           text[] NOT NULL DEFAULT '{}',
    networks         text[] NOT NULL DEFAULT '{}', -- uuids of networks it can attach
    vcpus            integer NOT NULL,
    memory_mb        integer NOT NULL,
    disk_gb          integer NOT NULL,
    vcpu_ratio       double precision NOT NULL DEFAULT 16,
    memory_ratio     double precision NOT NULL DEFAULT 1,
    disk_ratio       double precision NOT NULL DEFAULT 1,
    reserved_memory_mb integer NOT NULL DEFAULT 0,
    hypervisor_type  text NOT NULL DEFAULT 'QEMU',
    hypervisor_version bigint NOT NULL DEFAULT 0,
    cpu_info         jsonb NOT NULL DEFAULT '{}',
    availability_zone text NOT NULL DEFAULT 'nova',
    uptime           text NOT NULL DEFAULT '',
    release          text NOT NULL DEFAULT '',
    disabled         boolean NOT NULL DEFAULT false,
    disabled_reason  text,
    forced_down      boolean NOT NULL DEFAULT false,
    last_seen        timestamptz NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE flavors (
    number       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id           text NOT NULL UNIQUE,
    name         text NOT NULL UNIQUE,
    vcpus        integer NOT NULL CHECK (vcpus > 0),
    memory_mb    integer NOT NULL CHECK (memory_mb > 0),
    root_gb      integer NOT NULL CHECK (root_gb >= 0),
    ephemeral_gb integer NOT NULL DEFAULT 0 CHECK (ephemeral_gb >= 0),
    swap_mb      integer NOT NULL DEFAULT 0 CHECK (swap_mb >= 0),
    rxtx_factor  double precision NOT NULL DEFAULT 1,
    is_public    boolean NOT NULL DEFAULT true,
    disabled     boolean NOT NULL DEFAULT false,
    description  text,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz
);

CREATE TABLE flavor_extra_specs (
    flavor_id text NOT NULL REFERENCES flavors (id) ON DELETE CASCADE,
    key       text NOT NULL,
    value     text NOT NULL,
    PRIMARY KEY (flavor_id, key)
);

CREATE TABLE flavor_access (
    flavor_id  text NOT NULL REFERENCES flavors (id) ON DELETE CASCADE,
    project_id text NOT NULL,
    PRIMARY KEY (flavor_id, project_id)
);

CREATE TABLE keypairs (
    number      bigint NOT NULL GENERATED ALWAYS AS IDENTITY UNIQUE,
    user_id     text NOT NULL,
    name        text NOT NULL,
    type        text NOT NULL DEFAULT 'ssh',
    public_key  text NOT NULL,
    fingerprint text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, name)
);

-- A server. deleted_at is set when it is gone; its row stays for the trail.
CREATE TABLE servers (
    id                uuid PRIMARY KEY,
    number            bigint NOT NULL GENERATED ALWAYS AS IDENTITY UNIQUE,
    project_id        text NOT NULL,
    user_id           text NOT NULL,
    name              text NOT NULL,
    description       text,
    hostname          text NOT NULL,
    reservation_id    text NOT NULL,
    launch_index      integer NOT NULL DEFAULT 0,
    vm_state          text NOT NULL,
    task_state        text NOT NULL DEFAULT '',
    power_state       integer NOT NULL DEFAULT 0,
    progress          integer NOT NULL DEFAULT 0,
    host_id           uuid REFERENCES hosts (id),
    availability_zone text NOT NULL DEFAULT '',
    flavor            jsonb NOT NULL, -- compute.Flavor, frozen at create
    image_id          uuid,
    image             jsonb NOT NULL DEFAULT '{}', -- compute.Image, frozen at create
    tpm               jsonb,                       -- compute.TPM
    required_traits   text[] NOT NULL DEFAULT '{}',
    forbidden_traits  text[] NOT NULL DEFAULT '{}',
    networks          jsonb NOT NULL DEFAULT '[]', -- []compute.Network
    metadata          jsonb NOT NULL DEFAULT '{}',
    tags              text[] NOT NULL DEFAULT '{}',
    key_name          text,
    key_data          text,
    user_data         text,
    config_drive      boolean NOT NULL DEFAULT false,
    disk_config       text NOT NULL DEFAULT 'MANUAL',
    access_ip_v4      text NOT NULL DEFAULT '',
    access_ip_v6      text NOT NULL DEFAULT '',
    locked_by         text, -- owner or admin
    locked_reason     text,
    fault             jsonb, -- compute.Fault
    current_operation text NOT NULL DEFAULT '', -- the fence: only this operation may write
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz,
    launched_at       timestamptz,
    terminated_at     timestamptz,
    deleted_at        timestamptz
);
CREATE INDEX servers_project ON servers (project_id, created_at DESC) WHERE deleted_at IS NULL;
CREATE INDEX servers_host ON servers (host_id) WHERE deleted_at IS NULL;
CREATE INDEX servers_changes ON servers (updated_at);

CREATE TABLE server_system_metadata (
    server_id uuid NOT NULL REFERENCES servers (id),
    key       text NOT NULL,
    value     text NOT NULL,
    PRIMARY KEY (server_id, key)
);

-- The local disks of a server: the block device mapping of the encryption document (EE-07).
CREATE TABLE server_disks (
    id           uuid PRIMARY KEY,
    server_id    uuid NOT NULL REFERENCES servers (id),
    role         text NOT NULL,
    index        integer NOT NULL DEFAULT 0,
    device_name  text NOT NULL,
    bus          text NOT NULL DEFAULT 'virtio',
    size_mb      bigint NOT NULL,
    boot_index   integer NOT NULL DEFAULT -1,
    guest_format text NOT NULL DEFAULT '',
    image_id     uuid,
    tag          text,
    encrypted    boolean NOT NULL DEFAULT false,
    encryption_secret_uuid         uuid,
    backing_encryption_secret_uuid uuid,
    encryption_format              varchar(128) NOT NULL DEFAULT '',
    encryption_options             varchar(4096) NOT NULL DEFAULT '{}',
    UNIQUE (server_id, role, index)
);

-- What a server consumes on its host. One row per server: the claim.
CREATE TABLE claims (
    server_id    uuid PRIMARY KEY REFERENCES servers (id),
    host_id      uuid NOT NULL REFERENCES hosts (id),
    operation_id text NOT NULL,
    vcpus        integer NOT NULL,
    memory_mb    integer NOT NULL,
    disk_gb      integer NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX claims_host ON claims (host_id);

-- One row per lifecycle operation, committed before its workflow starts.
-- It is also the action of os-instance-actions.
CREATE TABLE operations (
    id          text PRIMARY KEY, -- the request id, req-…
    number      bigint NOT NULL GENERATED ALWAYS AS IDENTITY UNIQUE,
    server_id   uuid NOT NULL REFERENCES servers (id),
    kind        text NOT NULL,
    project_id  text NOT NULL,
    user_id     text NOT NULL,
    credential_id uuid NOT NULL,
    arguments   jsonb NOT NULL DEFAULT '{}',
    state       text NOT NULL DEFAULT 'accepted',
    message     text,
    accepted_at timestamptz NOT NULL DEFAULT now(),
    started_at  timestamptz,
    finished_at timestamptz,
    updated_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX operations_server ON operations (server_id, number DESC);
CREATE INDEX operations_open ON operations (accepted_at) WHERE state IN ('accepted', 'running');

CREATE TABLE operation_events (
    number       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    operation_id text NOT NULL REFERENCES operations (id),
    event        text NOT NULL,
    host_id      uuid,
    host         text,
    started_at   timestamptz NOT NULL,
    finished_at  timestamptz,
    result       text,
    details      text,
    UNIQUE (operation_id, event)
);

-- Everything made outside this database has a row here before it is made.
CREATE TABLE ledger (
    id            uuid PRIMARY KEY,
    kind          text NOT NULL,
    place         text NOT NULL,
    name          text NOT NULL,
    reference     text NOT NULL DEFAULT '',
    server_id     uuid NOT NULL REFERENCES servers (id),
    operation_id  text NOT NULL,
    credential_id uuid NOT NULL,
    project_id    text NOT NULL,
    user_id       text NOT NULL,
    state         text NOT NULL DEFAULT 'intended',
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    released_at   timestamptz
);
CREATE UNIQUE INDEX ledger_open ON ledger (kind, place, name) WHERE state <> 'released';
CREATE INDEX ledger_server ON ledger (server_id) WHERE state <> 'released';

-- +goose Down
DROP TABLE ledger, operation_events, operations, claims, server_disks, server_system_metadata, servers,
    keypairs, flavor_access, flavor_extra_specs, flavors, hosts;
