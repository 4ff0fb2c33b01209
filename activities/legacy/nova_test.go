package legacy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/legacy"
	"strongroom/activities/legacy/novatest"
	"strongroom/compute"
	"strongroom/deploy/dev/port"
)

// EE-48: what an import needs is read from a database of Nova's, with the tables of its models and the JSON of its
// objects: the same as a file says. A server that is not shut down there is refused, and so is one whose
// root disk is a volume; those that are deleted, or have no key, are not looked at.
func TestEE48NovaDatabase(t *testing.T) {
	t.Parallel()
	for kind, start := range novatest.Databases {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			nova := start(t)
			nova.Has(t, map[string]any{"uuid": "5e2d5cbe-3f5d-4d2e-8c0c-6ad5f1d9a001", "host": "compute1", "ephemeral_key_uuid": "1b0f6a52-8f3e-4f57-9d1c-3a2b4c5d6e7f"})
			nova.Has(t, map[string]any{"host": "compute1"})
			nova.Has(t, map[string]any{"host": "compute1", "ephemeral_key_uuid": uuid.NewString(), "vm_state": "deleted", "deleted": 3})
			nova.Has(t, map[string]any{"host": "compute2", "ephemeral_key_uuid": uuid.NewString(), "vm_state": "active"})
			nova.Has(t, map[string]any{"host": "compute3", "ephemeral_key_uuid": uuid.NewString(), "task_state": "powering-on"})
			nova.Has(t, map[string]any{"host": "compute4", "ephemeral_key_uuid": uuid.NewString(), "image_ref": ""})

			host, how := compute.HostID{UUID: uuid.New()}, compute.DefaultLegacyEncryption
			file, err := legacy.ReadFile(strings.NewReader(sameAsNova))
			require.NoError(t, err)
			want, err := file[0].Server(host, how)
			require.NoError(t, err)
			all, err := legacy.ReadNova(t.Context(), nova.URL, "compute1")
			require.NoError(t, err)
			require.Len(t, all, 1)
			require.Equal(t, "compute1", all[0].Host)
			got, err := all[0].Server(host, how)
			require.NoError(t, err)
			require.Equal(t, want, got)

			for host, why := range map[string]string{
				"": "is active in Nova: shut it down", "compute2": "is active in Nova", "compute3": "is stopped powering-on in Nova",
				"compute4": "its root disk is a volume", "compute5": `has no server on host "compute5"`,
			} {
				_, err := legacy.ReadNova(t.Context(), nova.URL, host)
				require.Equal(t, compute.Invalid, compute.KindOf(err), "%q: %v", host, err)
				require.ErrorContains(t, err, why)
			}
		})
	}
}

// What is wrong with a database or its URL is told without the password.
func TestNovaDatabaseIsNotReached(t *testing.T) {
	t.Parallel()
	ports, err := port.Free(t.Context(), 1)
	require.NoError(t, err)
	for _, c := range []struct {
		url, says string
		kind      compute.Kind
	}{
		{fmt.Sprintf("mysql+pymysql://nova:geheim@127.0.0.1:%d/nova?charset=utf8", ports[0]), "Nova's database", compute.Unavailable},
		{fmt.Sprintf("postgresql+psycopg2://nova:geheim@127.0.0.1:%d/nova", ports[0]), "Nova's database", compute.Unavailable},
		{"mysql://nova:geheim@127.0.0.1/nova?read_timeout=geheim", "parameter read_timeout", compute.Invalid},
		{"mysql://nova:geheim@127.0.0.1/nova?ssl_ca=/nowhere", "/nowhere", compute.Invalid},
		{"mysql://nova:geheim%zz@127.0.0.1/nova", "must be like", compute.Invalid},
		{"postgresql://nova:geheim@127.0.0.1/nova?sslmode=geheim", "must be like", compute.Invalid},
		{"sqlite:///geheim", "must be like", compute.Invalid},
		{"", "must be like", compute.Invalid},
	} {
		_, err := legacy.ReadNova(t.Context(), c.url+"\n", "")
		require.Equal(t, c.kind, compute.KindOf(err), "%v", err)
		require.ErrorContains(t, err, c.says)
		require.NotContains(t, err.Error(), "geheim")
	}
}

// sameAsNova is a file that says what novatest.Database.Has writes.
const sameAsNova = `
servers:
  - id: 5e2d5cbe-3f5d-4d2e-8c0c-6ad5f1d9a001
    host: compute1
    project_id: 7c8e4b1f0d6a4a6c9b2f3e5d1a0c9b8e
    user_id: 2f4e6d8c0b1a4938a7b6c5d4e3f20112
    name: a database
    hostname: a-database
    key: 1b0f6a52-8f3e-4f57-9d1c-3a2b4c5d6e7f
    flavor: {id: "2", name: m1.small, vcpus: 2, memory_mb: 2048, root_gb: 20, ephemeral_gb: 5, swap_mb: 512, extra_specs: {"hw:cpu_policy": shared}}
    image: {id: 9a8b7c6d-5e4f-4a3b-8c1d-0e9f8a7b6c5d, properties: {hw_disk_bus: scsi, hw_machine_type: q35}}
    networks: [{uuid: 0c0fa2f5-6f2b-4c6d-9d0c-0a9d7a3ef2b1, mac: "fa:16:3e:12:34:56"}]
`
