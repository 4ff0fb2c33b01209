package volume_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"strongroom/api"
	"strongroom/deploy/cloud/clienttest"
	"strongroom/deploy/cloud/cloudtest"
)

// VT-12: python-cinderclient's own program works unchanged: each of its commands on volume types, as an administrator
// and as a member, who sees the visible extra specs and is refused what is the administrator's.
func TestVT12CinderClient(t *testing.T) {
	t.Parallel()
	address, serve := listen(t)
	c := onDevcloud(t, address)
	serve(withDefault(t, c).api)
	cinderClient(t, c.project(t, stranger), func(caller string) []string { return c.environment(t, caller, address) })
}

// TestVT12CinderClientOnKeystone is the same with a real Keystone.
func TestVT12CinderClientOnKeystone(t *testing.T) {
	address, serve := listen(t)
	c := onKeystone(t)
	serve(withDefault(t, c).api)
	cinderClient(t, c.project(t, stranger), func(caller string) []string {
		return variables(t, cloudtest.Open(t), caller, address+"/volume/v3/"+c.project(t, caller))
	})
}

// withDefault gives the API with a type that is the default.
func withDefault(t *testing.T, c cloud) *bundle {
	t.Helper()
	b := setup(t, c, func(config *api.Config) { config.VolumeType = "standard" })
	b.create("standard", "")
	return b
}

// variables says in the environment what clouds.yaml has of a user: the program reads no such file.
func variables(t *testing.T, file, user, endpoint string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var all struct {
		Clouds map[string]struct {
			Auth map[string]string `yaml:"auth"`
		} `yaml:"clouds"`
	}
	require.NoError(t, yaml.Unmarshal(text, &all))
	out := []string{"OS_IDENTITY_API_VERSION=3", "OS_REGION_NAME=RegionOne", "CINDER_ENDPOINT=" + endpoint}
	for name, value := range all.Clouds[user].Auth {
		out = append(out, "OS_"+strings.ToUpper(name)+"="+value)
	}
	return out
}

// cinderCaller runs cinder as one user.
type cinderCaller struct {
	*testing.T
	client clienttest.Client
}

// newest version that the program knows, whose first commands ask for it.
const cinderVersion = "3.70"

func (c cinderCaller) run(args ...string) string {
	c.Helper()
	out, said, err := c.client.Run(c, append([]string{"--os-volume-api-version", cinderVersion}, args...)...)
	require.NoError(c, err, "%s%s", out, said)
	return out
}

func (c cinderCaller) refused(args ...string) {
	c.Helper()
	out, said, err := c.client.Run(c, append([]string{"--os-volume-api-version", cinderVersion}, args...)...)
	require.Error(c, err, "%s", out)
	require.Regexp(c, `(?s)(Policy doesn't allow volume_extension:\S+ to be performed|Failed to set key|Unable to delete)`, out+said)
}

// cells gives the rows of a printed table that have a cell of a text, without their borders.
func cells(table, with string) (rows [][]string) {
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		var row []string
		has := false
		for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
			row = append(row, strings.TrimSpace(cell))
			has = has || strings.TrimSpace(cell) == with
		}
		if has {
			rows = append(rows, row)
		}
	}
	return rows
}

func cinderClient(t *testing.T, elsewhere string, environment func(caller string) []string) {
	t.Helper()
	as := func(caller string) cinderCaller {
		return cinderCaller{t, clienttest.Open(t, environment(caller)...).Cinder()}
	}
	a, m := as(admin), as(member)
	made := cells(a.run("type-create", "fast", "--description", "for databases"), "fast")
	require.Len(t, made, 1)
	id := made[0][0]
	a.run("type-create", "mine", "--is-public", "False")
	a.run("type-key", "fast", "set", "multiattach=<is> True", "volume_backend_name=pool", "RESKEY:availability_zones=az1")
	a.run("type-update", id, "--description", "for large databases")

	require.Equal(t, [][]string{{id, "fast", "for large databases", "True"}}, cells(a.run("type-list"), "fast"))
	require.Equal(t, cells(a.run("type-list"), "fast"), cells(m.run("type-list"), "fast"))
	require.Len(t, cells(a.run("type-list"), "mine"), 1)
	require.Empty(t, cells(m.run("type-list"), "mine"), "it is private")
	require.NotEmpty(t, cells(m.run("type-default"), "standard"))
	require.Len(t, cells(m.run("type-list", "--filters", "extra_specs={multiattach:<is> True}"), "fast"), 1)
	require.Empty(t, cells(m.run("type-list", "--filters", "extra_specs={volume_backend_name:pool}"), "fast"))

	hidden := "volume_backend_name"
	for _, asked := range [][]string{{"extra-specs-list"}, {"type-show", "fast"}} {
		require.Contains(t, a.run(asked...), hidden, "%v", asked)
		shown := m.run(asked...)
		require.NotContains(t, shown, hidden, "%v", asked)
		require.Contains(t, shown, "multiattach", "%v", asked)
		require.Contains(t, shown, "RESKEY:availability_zones", "%v", asked)
	}

	a.run("encryption-type-create", "fast", "luks", "--cipher", "aes-xts-plain64", "--key-size", "256", "--control-location", "front-end")
	a.run("encryption-type-update", "fast", "--key-size", "512")
	require.Equal(t, [][]string{{id, "luks", "aes-xts-plain64", "512", "front-end"}}, cells(a.run("encryption-type-show", "fast"), id))
	require.Len(t, cells(a.run("encryption-type-list"), id), 1)
	a.run("encryption-type-delete", "fast")

	a.run("type-access-add", "--volume-type", "mine", "--project-id", elsewhere)
	require.Len(t, cells(a.run("type-access-list", "--volume-type", "mine"), elsewhere), 1)
	a.run("type-access-remove", "--volume-type", "mine", "--project-id", elsewhere)
	require.Empty(t, cells(a.run("type-access-list", "--volume-type", "mine"), elsewhere))

	for _, asked := range [][]string{
		{"type-create", "another"}, {"type-update", id, "--name", "slow"}, {"type-delete", "fast"}, {"type-key", "fast", "set", "multiattach=<is> False"},
		{"type-key", "fast", "unset", "multiattach"}, {"encryption-type-create", "fast", "luks"},
	} {
		m.refused(asked...)
	}
	a.run("type-key", "fast", "unset", hidden)
	require.NotContains(t, a.run("type-show", "fast"), hidden)
	require.Contains(t, a.run("type-show", "fast"), "multiattach")
	a.run("type-delete", "fast", "mine")
	require.Empty(t, cells(a.run("type-list"), "fast"))
}
