-- +goose Up

-- What images and flavors say of firmware and machine types had no effect before. Servers that there
-- are go on with a BIOS and with their host's machine type: they have no UEFI variables.
UPDATE servers SET
    image = image #- '{properties,hw_firmware_type}' #- '{properties,os_secure_boot}' #- '{properties,hw_machine_type}',
    flavor = flavor #- '{extra_specs,os:secure_boot}' #- '{extra_specs,hw:machine_type}',
    former = former #- '{flavor,extra_specs,os:secure_boot}' #- '{flavor,extra_specs,hw:machine_type}'
WHERE image->'properties' ?| ARRAY['hw_firmware_type', 'os_secure_boot', 'hw_machine_type']
    OR flavor->'extra_specs' ?| ARRAY['os:secure_boot', 'hw:machine_type']
    OR former#>'{flavor,extra_specs}' ?| ARRAY['os:secure_boot', 'hw:machine_type'];

-- +goose Down
SELECT 1;
