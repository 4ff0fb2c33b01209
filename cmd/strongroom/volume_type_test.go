package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	imagelocal "strongroom/activities/image/local"
	sharelocal "strongroom/activities/share/local"
	"strongroom/api"
	"strongroom/devcloud"
	"strongroom/integration/seed"
	"strongroom/schema/schematest"
	"strongroom/schema/seal"
)

// asProgram makes this test's executable be the program itself.
const asProgram = "STRONGROOM_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	seed.Deep("ops", TestOpenStackClientPlugin)
	os.Exit(m.Run())
}

// region is a cloud of its own: identity service, catalog, API and database.
type region struct {
	auth      string
	passwords map[string]string
	pool      *pgxpool.Pool
	images    *imagelocal.Library
	shares    *sharelocal.Service
	run       *runner // of operations
}

func newRegion(t *testing.T) region {
	t.Helper()
	var handler http.Handler
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	dir, made := t.TempDir(), region{}
	images, err := imagelocal.Open(imagelocal.Config{Dir: filepath.Join(dir, "images")})
	require.NoError(t, err)
	users := filepath.Join(dir, "users.yaml")
	require.NoError(t, devcloud.EnsureUsers(users, func(passwords map[string]string) error { made.passwords = passwords; return nil }))
	identity, err := devcloud.New(devcloud.Config{
		Listen: "127.0.0.1:0", UsersFile: users, TokenKeyFile: filepath.Join(dir, "token.key"), Images: images,
		Endpoints: map[string]string{"volumev3": front.URL + "/volume/v3/$(project_id)s", "compute": front.URL + "/v2.1"},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- identity.Serve(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-served) })
	made.auth = identity.AuthURL()

	provider, err := openstack.AuthenticatedClient(t.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: made.auth, Username: devcloud.ServiceUser, Password: made.passwords[devcloud.ServiceUser],
		TenantName: devcloud.ServiceProject, DomainName: "Default", AllowReauth: true,
	})
	require.NoError(t, err)
	client, err := openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{Region: "RegionOne"})
	require.NoError(t, err)
	box, err := seal.Parse([]byte(seal.NewKey()))
	require.NoError(t, err)
	made.pool, made.images = schematest.New(t), images
	made.shares, err = sharelocal.Open(filepath.Join(dir, "shares"))
	require.NoError(t, err)
	made.run = &runner{t: t, pool: made.pool}
	handler, err = api.New(api.Config{
		Pool: made.pool, Identity: client, VolumeType: "__DEFAULT__", Images: imageRecords{images}, Operations: made.run, Seal: box,
		Shares: shareAccess(made.shares),
	})
	require.NoError(t, err)
	return made
}

// desk is where a person sits who runs the program: with a clouds.yaml.
type desk struct {
	t      *testing.T
	clouds string
}

// newDesk knows each region's administrator by the region's name, and its member
// as name-member.
func newDesk(t *testing.T, regions map[string]region) desk {
	t.Helper()
	clouds := map[string]any{}
	for name, in := range regions {
		entry := func(user string) map[string]any {
			return map[string]any{"region_name": "RegionOne", "auth": map[string]any{
				"auth_url": in.auth, "username": user, "password": in.passwords[user],
				"project_name": "demo", "user_domain_name": "Default", "project_domain_name": "Default",
			}}
		}
		clouds[name], clouds[name+"-member"] = entry("admin"), entry("demo")
	}
	text, err := yaml.Marshal(map[string]any{"clouds": clouds})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return desk{t: t, clouds: file}
}

func (d desk) start(cloud string, args ...string) (string, error) {
	out, err := d.program(cloud, append([]string{"volume-type"}, args...)...).CombinedOutput()
	return string(out), err
}

// program is a run of the program.
func (d desk) program(cloud string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(d.t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "OS_CLIENT_CONFIG_FILE="+d.clouds, "OS_CLOUD="+cloud)
	return cmd
}

// run gives what a command that succeeds prints.
func (d desk) run(cloud string, args ...string) string {
	d.t.Helper()
	out, err := d.start(cloud, args...)
	require.NoError(d.t, err, "%v: %s", args, out)
	return out
}

// fails checks that a command fails with a text.
func (d desk) fails(says, cloud string, args ...string) {
	d.t.Helper()
	out, err := d.start(cloud, args...)
	require.Error(d.t, err, out)
	require.Equal(d.t, "strongroom: "+says+"\n", out)
}

func show[T any](d desk, cloud string, args ...string) (value T) {
	d.t.Helper()
	require.NoError(d.t, json.Unmarshal([]byte(d.run(cloud, append(args, "-o", "json")...)), &value))
	return value
}

func TestVolumeTypeCommands(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]region{"here": newRegion(t)})
	project := uuid.NewString()
	d.run("here", "create", "plain")
	made := show[volumeType](d, "here", "create", "shared", "--description", "for several servers", "--private", "--project", project,
		"--property", "multiattach=<is> True", "--property", "RESKEY:availability_zones=az1,az2", "--property", "volume_backend_name=a;b=c",
		"--encryption-provider", "luks", "--encryption-cipher", "aes-xts-plain64", "--encryption-key-size", "256")
	require.Equal(t, []string{project}, made.Projects)
	require.Equal(t, "a;b=c", *made.ExtraSpecs["volume_backend_name"])
	require.Equal(t, "luks aes-xts-plain64 256 bits front-end", made.Encryption.String())
	d.fails(`there is no volume type "shared"`, "here-member", "show", "shared")

	shown := d.run("here", "set", "shared", "--public", "--name", "many", "--description", "for many", "--property", "x=y", "--encryption-key-size", "512")
	for _, line := range []string{"many", "for many", "property x", "az1,az2", "luks aes-xts-plain64 512 bits front-end"} {
		require.Contains(t, shown, line)
	}
	shown = d.run("here-member", "show", "many")
	require.Contains(t, shown, "property multiattach")
	for _, hidden := range []string{"volume_backend_name", "property x", "luks", project} {
		require.NotContains(t, shown, hidden)
	}
	require.Contains(t, d.run("here-member", "list"), "RESKEY:availability_zones='az1,az2', multiattach='<is> True'")
	require.Len(t, show[[]volumeType](d, "here-member", "list"), 2)
	require.Len(t, show[[]volumeType](d, "here-member", "list", "--property", "multiattach=<is> True"), 1)
	require.Empty(t, show[[]volumeType](d, "here-member", "list", "--property", "x=y"), "a hidden key reveals nothing")
	require.Len(t, show[[]volumeType](d, "here", "list", "--property", "x=y", "--property", "RESKEY:availability_zones=az2"), 1)

	d.run("here", "unset", "many", "--property", "x", "--property", "volume_backend_name", "--encryption")
	bare := show[volumeType](d, "here", "show", made.ID)
	require.Nil(t, bare.Encryption)
	require.Len(t, bare.ExtraSpecs, 2)
	d.run("here", "set", "many", "--private")
	require.Empty(t, show[volumeType](d, "here", "unset", "many", "--project", project).Projects)
	require.Empty(t, show[[]volumeType](d, "here", "list", "--private")[0].Projects)

	history := show[[]volumeTypeChange](d, "here", "history", "many")
	require.Equal(t, "volume_type.create", history[0].Action)
	require.Equal(t, "volume_type_project.access.remove", history[len(history)-1].Action)
	require.Contains(t, d.run("here", "history", made.ID), "volume_type_encryption.delete")

	d.fails("Policy doesn't allow volume_extension:type_delete to be performed. (HTTP 403)", "here-member", "delete", "plain")
	d.fails("Policy doesn't allow strongroom:volume_types:changes to be performed. (HTTP 403)", "here-member", "history", "plain")
	d.fails("the type is not encrypted yet: say --encryption-provider", "here", "set", "plain", "--encryption-cipher", "aes")
	d.fails("say how volumes are encrypted with --encryption-provider", "here", "create", "other", "--encryption-cipher", "aes")
	d.fails("everybody sees a public type: --project goes with --private", "here", "create", "other", "--project", project)
	d.fails("Volume Type plain already exists. (HTTP 409)", "here", "create", "plain")
	d.run("here", "delete", "many")
	require.Contains(t, d.run("here", "history", made.ID), "volume_type.delete")
	for _, command := range []string{"", "create", "import", "history"} {
		require.Contains(t, d.run("here", append(strings.Fields(command), "--help")...), "Usage: strongroom volume-type")
	}
}

// TestVolumeTypeImport copies the types of one cloud to another over HTTP, again
// and again.
func TestVolumeTypeImport(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]region{"there": newRegion(t), "here": newRegion(t)})
	project, guest := uuid.NewString(), uuid.NewString()
	d.run("there", "create", "plain", "--property", "a key/with all=x")
	d.run("there", "create", "secret", "--private", "--project", project, "--description", "not for all", "--property", "volume_backend_name=pool",
		"--encryption-provider", "luks", "--encryption-cipher", "aes-xts-plain64", "--encryption-key-size", "256")
	d.run("there", "create", "shared", "--property", "multiattach=<is> True")
	d.run("here", "create", "own")
	// The same name as over there, and much that is not as it is there.
	d.run("here", "create", "shared", "--description", "old", "--private", "--property", "cacheable=<is> True",
		"--encryption-provider", "plain", "--project", guest)
	run := func(args ...string) map[string]imported {
		t.Helper()
		results := map[string]imported{}
		for _, result := range show[[]imported](d, "here", append([]string{"import", "--from", "there"}, args...)...) {
			results[result.Name] = result
		}
		return results
	}
	results := func(run map[string]imported) map[string]string {
		said := map[string]string{}
		for name, one := range run {
			said[name] = one.Result
		}
		return said
	}
	everything := func(cloud string) map[string]volumeType {
		types := map[string]volumeType{}
		for _, listed := range show[[]volumeType](d, cloud, "list") {
			types[listed.Name] = show[volumeType](d, cloud, "show", listed.ID)
		}
		return types
	}

	before := everything("here")
	planned := run("--dry-run")
	require.Equal(t, map[string]string{"plain": "created", "secret": "created", "shared": "changed"}, results(planned))
	require.Equal(t, before, everything("here"), "a dry run changes nothing")
	require.Equal(t, map[string]string{"plain": "created"}, results(run("--dry-run", "plain")))

	done := run()
	require.Equal(t, planned, done, "what was said is what is done")
	require.Equal(t, []string{"update", "-cacheable", "+multiattach", "-encryption"}, done["shared"].Steps)
	require.Equal(t, []string{"create", "access +" + project, "+encryption"}, done["secret"].Steps)
	same := func() {
		t.Helper()
		there, here := everything("there"), everything("here")
		require.Contains(t, here, "own", "what is only here stays")
		for name, want := range there {
			got := here[name]
			if name == "shared" {
				got.ID = want.ID // it was here before
			} else {
				require.Equal(t, want.ID, got.ID, "a new type keeps its id")
			}
			if want.Encryption != nil {
				want.Encryption.ID = got.Encryption.ID
			}
			if want.Description == nil {
				require.Empty(t, text(got.Description))
				got.Description = nil
			}
			require.Equal(t, want, got)
		}
	}
	same()
	require.Equal(t, map[string]string{"plain": "unchanged", "secret": "unchanged", "shared": "unchanged"}, results(run()))

	d.run("there", "set", "secret", "--name", "renamed", "--public", "--encryption-key-size", "512", "--property", "volume_backend_name=other")
	d.run("there", "set", "plain", "--private", "--project", project)
	d.run("there", "unset", "plain", "--property", "a key/with all")
	require.Equal(t, map[string]string{"plain": "changed", "renamed": "changed", "shared": "unchanged"}, results(run()))
	same()
	d.run("there", "set", "renamed", "--private")
	d.run("there", "unset", "renamed", "--project", project, "--property", "volume_backend_name", "--encryption")
	run()
	same()
	require.Equal(t, map[string]string{"plain": "unchanged", "renamed": "unchanged", "shared": "unchanged"}, results(run()))

	d.fails(`cloud "there-member": its user is no administrator there and does not see everything of a volume type`,
		"here", "import", "--from", "there-member")
	d.fails(`cloud "here-member": its user is no administrator there and does not see everything of a volume type`,
		"here-member", "import", "--from", "there")
	d.fails(`cloud "there": there is no volume type "none"`, "here", "import", "--from", "there", "none")
	// Another type has the name already: that one fails, and the others do not.
	d.run("here", "create", "taken")
	d.run("there", "set", "plain", "--name", "taken")
	d.run("there", "set", "shared", "--description", "new")
	out, err := d.start("here", "import", "--from", "there")
	require.Error(t, err)
	require.Contains(t, out, "update: Volume Type taken already exists. (HTTP 409)")
	require.Contains(t, out, "strongroom: 1 of 3 volume types failed")
	require.Equal(t, "new", *show[volumeType](d, "here", "show", "shared").Description)
}
