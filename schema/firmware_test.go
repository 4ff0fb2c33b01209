package schema_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/schema"
	"strongroom/schema/schematest"
)

// Migration 46: servers of before have no UEFI variables, and go on with the firmware and the machine that
// they have, whatever image and flavor say; all else that these say stays.
func TestServersOfBeforeKeepTheirFirmware(t *testing.T) {
	t.Parallel()
	pool := schematest.Empty(t)
	require.NoError(t, schema.MigrateTo(t.Context(), pool, 44))
	const says = `{"properties": {"hw_firmware_type": "uefi", "os_secure_boot": "required", "hw_machine_type": "pc", "os_distro": "debian"}}`
	const flavor = `{"id": "1", "extra_specs": {"os:secure_boot": "required", "hw:machine_type": "pc", "hw:tpm_version": "2.0"}}`
	all := map[string]string{}
	for id, row := range map[string][3]string{
		uuid.NewString(): {says, flavor, `{"flavor": ` + flavor + `}`},
		uuid.NewString(): {says, `{"id": "1"}`, ""},
		uuid.NewString(): {`{}`, flavor, ""},
		uuid.NewString(): {`{"properties": {"os_distro": "debian"}}`, `{"id": "1"}`, ""},
	} {
		_, err := pool.Exec(t.Context(), `INSERT INTO servers (id, project_id, user_id, name, hostname, reservation_id, vm_state, image, flavor, former)
			VALUES ($1, 'p', 'u', 'vm', 'vm', 'r-1', 'active', $2, $3, $4)`, id, row[0], row[1], pgText(row[2]))
		require.NoError(t, err)
		all[id] = ""
	}
	require.NoError(t, schema.MigrateTo(t.Context(), pool, 46))
	for id := range all {
		var text string
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT image::text || flavor::text || coalesce(former::text, '') FROM servers WHERE id = $1`, id).Scan(&text))
		for _, word := range []string{"hw_firmware_type", "os_secure_boot", "os:secure_boot", "machine_type"} {
			require.NotContains(t, text, word)
		}
	}
	require.Equal(t, map[string]string{"debian": "3"}, pairs(t, pool, `SELECT image #>> '{properties,os_distro}', count(*)::text FROM servers WHERE image->'properties' ? 'os_distro' GROUP BY 1`))
	require.Equal(t, map[string]string{"2.0": "2"}, pairs(t, pool, `SELECT flavor #>> '{extra_specs,hw:tpm_version}', count(*)::text FROM servers WHERE flavor->'extra_specs' ? 'hw:tpm_version' GROUP BY 1`))
	require.Equal(t, map[string]string{"2.0": "1"}, pairs(t, pool, `SELECT former #>> '{flavor,extra_specs,hw:tpm_version}', count(*)::text FROM servers WHERE former IS NOT NULL GROUP BY 1`))
}
