-- +goose Up

-- The id of the storage on which a host has the states of vTPMs; '': it has said none. Hosts that
-- say the same share it.
ALTER TABLE hosts ADD COLUMN tpm_storage text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE hosts DROP COLUMN tpm_storage;
