package volume_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/cloud/clienttest"
)

// VT-12: TestStandardClient drives the API with the python client, which finds it in the
// catalog.
func TestStandardClient(t *testing.T) {
	t.Parallel()
	address, serve := listen(t)
	c := onDevcloud(t, address)
	serve(setup(t, c).api)
	standardClient(t, c, address, "3.70") // the newest that it knows
}

// standardClient is a type's life, as an administrator makes it and a member sees
// it.
func standardClient(t *testing.T, c cloud, address, version string) {
	a, m := newPython(t, c, admin, address, version), newPython(t, c, member, address, version)
	a.run("volume", "type", "create", "another")
	made := a.object("volume", "type", "create", "fast", "--description", "for databases",
		"--property", "multiattach=<is> True", "--property", "volume_backend_name=pool")
	require.Equal(t, map[string]any{"multiattach": "<is> True", "volume_backend_name": "pool"}, made["properties"])
	require.Equal(t, made["id"], a.object("volume", "type", "show", "fast")["id"])
	a.run("volume", "type", "set", "fast", "--property", "RESKEY:availability_zones=az1", "--description", "for large databases",
		"--encryption-provider", "luks", "--encryption-cipher", "aes-xts-plain64", "--encryption-key-size", "256", "--encryption-control-location", "front-end")

	all := map[string]any{"multiattach": "<is> True", "volume_backend_name": "pool", "RESKEY:availability_zones": "az1"}
	visible := map[string]any{"multiattach": "<is> True", "RESKEY:availability_zones": "az1"}
	for client, want := range map[*python]map[string]any{a: all, m: visible} {
		listed := client.named("fast")
		require.Equal(t, want, listed["Properties"])
		require.Equal(t, "for large databases", listed["Description"])
		shown := client.object("volume", "type", "show", "fast")
		require.Equal(t, want, shown["properties"])
		require.Equal(t, true, shown["is_public"])
		require.Nil(t, shown["qos_specs_id"])
	}
	crypt := a.object("volume", "type", "show", "fast", "--encryption-type")["encryption"].(map[string]any)
	require.Equal(t, []any{"luks", "aes-xts-plain64", "front-end"}, []any{crypt["provider"], crypt["cipher"], crypt["control_location"]})

	require.Contains(t, m.fail("volume", "type", "set", "fast", "--property", "multiattach=<is> False"),
		"Policy doesn't allow volume_extension:types_extra_specs:create to be performed. (HTTP 403)")
	require.Contains(t, m.fail("volume", "type", "delete", "fast"), "Policy doesn't allow volume_extension:type_delete to be performed.")
	require.Contains(t, m.fail("volume", "type", "create", "mine"), "Policy doesn't allow volume_extension:type_create to be performed.")

	a.run("volume", "type", "unset", "fast", "--property", "volume_backend_name", "--encryption-type")
	require.Equal(t, visible, a.object("volume", "type", "show", "fast")["properties"])
	a.run("volume", "type", "create", "hidden", "--private")
	require.Nil(t, m.named("hidden"))
	require.NotNil(t, a.named("hidden"))
	a.run("volume", "type", "delete", "fast", "hidden")
	require.Nil(t, a.named("fast"))
}

// python is the standard client as a caller runs it.
type python struct {
	t       *testing.T
	version string
	client  clienttest.Client
}

func newPython(t *testing.T, c cloud, caller, address, version string) *python {
	t.Helper()
	return &python{t: t, version: version, client: clienttest.Open(t, c.environment(t, caller, address)...)}
}

func (p *python) start(args []string) (out, said string, err error) {
	return p.client.Run(p.t, p.asks(args)...)
}

// asks is a command at the version.
func (p *python) asks(args []string) []string {
	return append([]string{"--os-volume-api-version", p.version}, args...)
}

// run gives what a command that succeeds prints.
func (p *python) run(args ...string) string {
	p.t.Helper()
	out, said, err := p.start(args)
	require.NoError(p.t, err, "%s%s", out, said)
	return out
}

// fail gives what a command that fails says.
func (p *python) fail(args ...string) string {
	p.t.Helper()
	_, said, err := p.start(args)
	require.Error(p.t, err)
	return said
}

func (p *python) object(args ...string) (out map[string]any) {
	p.t.Helper()
	p.client.Decode(p.t, &out, p.asks(args)...)
	return out
}

// named gives a type out of the long list, or nil.
func (p *python) named(name string) map[string]any {
	p.t.Helper()
	var list []map[string]any
	p.client.Decode(p.t, &list, p.asks([]string{"volume", "type", "list", "--long"})...)
	for _, item := range list {
		if item["Name"] == name {
			return item
		}
	}
	return nil
}
