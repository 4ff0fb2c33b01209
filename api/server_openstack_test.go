package api_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	imagelocal "strongroom/activities/image/local"
	"strongroom/api"
	"strongroom/compute"
	"strongroom/deploy/cloud/clienttest"
	"strongroom/devcloud"
	"strongroom/schema/schematest"
	"strongroom/schema/seal"
)

// settler is a Starter that brings every operation to its end at once, so that
// clients which wait see it.
type settler struct{ exec func(sql string, args ...any) }

func (s settler) Start(_ context.Context, op compute.Operation) error {
	end := `UPDATE servers SET vm_state = 'active', task_state = '', power_state = 1, launched_at = now(), current_operation = '',
		host_id = (SELECT id FROM hosts), availability_zone = 'nova' WHERE id = $1`
	switch op.Kind {
	case compute.OpStop:
		end = `UPDATE servers SET vm_state = 'stopped', task_state = '', power_state = 4, current_operation = '' WHERE id = $1`
	case compute.OpDelete:
		end = `UPDATE servers SET vm_state = 'deleted', task_state = '', deleted_at = now(), current_operation = '' WHERE id = $1`
	}
	s.exec(end, op.ServerID)
	s.exec(`UPDATE operations SET state = 'succeeded', finished_at = now() WHERE id = $1`, op.ID)
	return nil
}

func (settler) CancelExecution(context.Context, compute.Operation) error { return nil }

func (settler) Progress(context.Context, compute.Operation) (compute.Progress, bool, error) {
	return compute.Progress{}, false, nil
}

func (settler) Health(context.Context) error { return nil }

func (settler) PortPlugged(context.Context, compute.ServerID) error { return nil }

func (settler) ImageRecord(context.Context, compute.Operation) (*compute.Error, error) {
	return nil, nil
}

func (settler) Ended(context.Context, compute.Operation) (*compute.Error, error) { return nil, nil }

type imageRecords struct{ *imagelocal.Library }

func (i imageRecords) Image(ctx context.Context, cred compute.Credential, id compute.ImageID) (compute.Image, error) {
	return i.Get(ctx, cred, id)
}

func (i imageRecords) Images(ctx context.Context, cred compute.Credential, asked api.ImageList) (api.ImagePart, error) {
	got, err := i.List(ctx, cred, image.ListInput{Newest: true, Marker: asked.Marker, Limit: asked.Limit, Name: asked.Name, Statuses: asked.Statuses})
	return api.ImagePart{Images: got.Images, Next: got.Next, Last: got.Last}, err
}

func (i imageRecords) ChangeImage(ctx context.Context, cred compute.Credential, id compute.ImageID, set map[string]string, remove func(name string) bool) (compute.Image, error) {
	return i.ChangeProperties(ctx, cred, id, set, remove)
}

func (i imageRecords) DeleteImage(ctx context.Context, cred compute.Credential, id compute.ImageID) error {
	return i.Delete(ctx, cred, id)
}

// setupClient serves a cloud of an identity service, images and the API, and
// gives the python client for it.
func setupClient(t *testing.T) clienttest.Client {
	t.Helper()
	pool, dir := schematest.New(t), t.TempDir()
	execute := func(sql string, args ...any) {
		_, err := pool.Exec(context.Background(), sql, args...)
		require.NoError(t, err)
	}
	execute(`INSERT INTO hosts (id, name, agent_url, traits, vcpus, memory_mb, disk_gb, last_seen) VALUES ($1, 'node-1', 'http://agent', $2, 8, 8192, 100, now())`, uuid.New(), allTraits)

	var handler http.Handler
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	images, err := imagelocal.Open(imagelocal.Config{Dir: filepath.Join(dir, "images")})
	require.NoError(t, err)
	passwords := map[string]string{}
	users := filepath.Join(dir, "users.yaml")
	require.NoError(t, devcloud.EnsureUsers(users, func(made map[string]string) error { passwords = made; return nil }))
	identity, err := devcloud.New(devcloud.Config{
		Listen: "127.0.0.1:0", UsersFile: users, TokenKeyFile: filepath.Join(dir, "token.key"), Images: images,
		Endpoints: map[string]string{"compute": front.URL + "/v2.1"},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- identity.Serve(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-served) })

	provider, err := openstack.AuthenticatedClient(t.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: identity.AuthURL(), Username: devcloud.ServiceUser, Password: passwords[devcloud.ServiceUser],
		TenantName: devcloud.ServiceProject, DomainName: "Default", AllowReauth: true,
	})
	require.NoError(t, err)
	client, err := openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{Region: "RegionOne"})
	require.NoError(t, err)
	box, err := seal.Parse([]byte(seal.NewKey()))
	require.NoError(t, err)
	handler, err = api.New(api.Config{
		Keys: &checker{}, Objects: &checker{}, Seal: box,
		Pool: pool, Identity: client, Images: imageRecords{images}, Operations: settler{execute},
		Hosts: &consoles{text: "the guest is up\n"}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	return clienttest.Open(t, "OS_IDENTITY_API_VERSION=3", "OS_AUTH_URL="+identity.AuthURL(),
		"OS_USERNAME=admin", "OS_PASSWORD="+passwords["admin"], "OS_PROJECT_NAME=demo", "OS_USER_DOMAIN_NAME=Default",
		"OS_PROJECT_DOMAIN_NAME=Default", "OS_REGION_NAME=RegionOne")
}

// The python client's commands for aggregates.
func TestStandardClientOfAggregates(t *testing.T) {
	t.Parallel()
	python := setupClient(t)
	run := func(args ...string) {
		t.Helper()
		out, said, err := python.Run(t, append([]string{"aggregate"}, args...)...)
		require.NoError(t, err, "%s%s", out, said)
	}
	show := func() (out map[string]any) {
		t.Helper()
		python.Decode(t, &out, "aggregate", "show", "fast")
		return out
	}
	list := func(args ...string) (out []map[string]any) {
		t.Helper()
		python.Decode(t, &out, args...)
		return out
	}
	run("create", "--zone", "east", "--property", "ssd=true", "--property", "color=blue", "fast")
	run("add", "host", "fast", "node-1")
	run("set", "--property", "color=red", "fast")
	run("unset", "--property", "color", "fast")
	got := show()
	require.Equal(t, "east", got["availability_zone"])
	require.Equal(t, []any{"node-1"}, got["hosts"])
	require.Equal(t, map[string]any{"ssd": "true"}, got["properties"])
	require.Equal(t, "east", list("availability", "zone", "list", "--compute")[0]["Zone Name"])
	require.Equal(t, "fast", list("aggregate", "list")[0]["Name"])
	run("remove", "host", "fast", "node-1")
	require.Empty(t, show()["hosts"])
	run("delete", "fast")
	require.Empty(t, list("aggregate", "list"))
}

// TestStandardClient drives servers with the python client, at its own default
// version and at a late one.
func TestStandardClient(t *testing.T) {
	t.Parallel()
	python := setupClient(t)
	run := func(args ...string) string {
		t.Helper()
		out, said, err := python.Run(t, args...)
		require.NoError(t, err, "%s%s", out, said)
		return out
	}
	object := func(args ...string) (out map[string]any) {
		t.Helper()
		python.Decode(t, &out, args...)
		return out
	}
	list := func(args ...string) (out []map[string]any) {
		t.Helper()
		python.Decode(t, &out, args...)
		return out
	}
	file := filepath.Join(t.TempDir(), "disk.qcow2")
	require.NoError(t, exec.CommandContext(t.Context(), "qemu-img", "create", "-q", "-f", "qcow2", file, "64M").Run())
	object("image", "create", "tiny", "--file", file, "--disk-format", "qcow2", "--public")
	object("flavor", "create", "small", "--ram", "256", "--disk", "1", "--vcpus", "1", "--property", "hw:ephemeral_encryption=true")

	made := object("server", "create", "one", "--image", "tiny", "--flavor", "small", "--property", "a=b", "--wait")
	require.Equal(t, "ACTIVE", made["status"])
	id := made["id"].(string)
	shown := object("server", "show", "one")
	require.Equal(t, id, shown["id"])
	require.Equal(t, map[string]any{"a": "b"}, shown["properties"])
	for _, version := range []string{"2.1", "2.90"} {
		at := []string{"--os-compute-api-version", version, "server"}
		require.Len(t, list(append(at, "list", "--long")...), 1)
		require.Equal(t, "one", list(append(at, "list", "--all-projects")...)[0]["Name"])
		run(append(at, "stop", "one")...)
		require.Equal(t, "SHUTOFF", object(append(at, "show", "one")...)["status"])
		run(append(at, "start", "one")...)
		run(append(at, "reboot", "--hard", "one")...)
		require.Len(t, list(append(at, "event", "list", "one")...), map[string]int{"2.1": 4, "2.90": 7}[version])
	}
	for _, version := range []string{"2.1", "2.90"} {
		require.Contains(t, run("--os-compute-api-version", version, "server", "rebuild", "one", "--image", "tiny", "--password", "mine", "--wait"), "Complete")
	}
	require.Equal(t, "the guest is up\n", run("console", "log", "show", "one"))
	run("server", "set", "--name", "two", "--property", "c=d", "one")
	run("server", "unset", "--property", "a", "two")
	run("server", "lock", "two")
	run("server", "unlock", "two")
	event := object("server", "event", "show", id, list("server", "event", "list", id)[0]["Request ID"].(string))
	require.Equal(t, "unlock", event["action"])
	second := object("--os-compute-api-version", "2.90", "server", "create", "three", "--image", "tiny", "--flavor", "small", "--nic", "none", "--wait")
	require.Equal(t, "ACTIVE", second["status"])
	run("server", "delete", "--wait", "two", "three")
	require.Empty(t, list("server", "list"))
}
