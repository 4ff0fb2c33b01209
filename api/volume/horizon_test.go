package volume_test

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/endpoints"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/regions"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/services"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/cloud/cloudtest"
	"strongroom/integration/browser"
)

// patience is for pages of Horizon's, on a machine that does other things too.
const patience = 3 * time.Minute

// VT-12: Debian's Horizon works unchanged: in a browser, an administrator makes a volume type and gives it extra
// specs, and Horizon lists it with them; what it tells a member of types has the visible ones alone. It is begun with
// STRONGROOM_TEST_FULL alone (TestMain).
func TestVT12Horizon(t *testing.T) {
	address, serve := listen(t)
	c := onKeystone(t)
	b := setup(t, c)
	serve(b.api)
	b.create("standard", `{"multiattach":"<is> True","volume_backend_name":"SecretName"}`)
	dashboard := startHorizon(t, regionOf(t, address))
	project := cloudtest.NewProject(t) // of which no process of Keystone's knows a catalog yet

	a := logIn(t, dashboard, project, "admin")
	a.goes("/admin/volume_types/")
	a.Shows("standard")
	a.goes("/admin/volume_types/create_type")
	a.Does(chromedp.SendKeys("#id_name", "shared-ssd"), chromedp.SendKeys("#id_vol_type_description", "fast, several servers"),
		chromedp.Submit("#id_name"))
	a.Shows("shared-ssd")
	a.Shows("fast, several servers")
	id := b.do(admin, "GET", "/types", "").get("shared-ssd")
	for key, value := range map[string]string{"multiattach": "<is> True", "volume_backend_name": "nvme-pool"} {
		a.goes("/admin/volume_types/" + id + "/extras/create/")
		a.Does(chromedp.SendKeys("#id_key", key), chromedp.SendKeys("#id_value", value), chromedp.Submit("#id_key"))
		a.goes("/admin/volume_types/" + id + "/extras/")
		a.Shows(key)
		a.Shows(value)
	}
	a.Picture("horizon-extra-specs")
	a.goes("/admin/volume_types/")
	a.Shows("shared-ssd")
	a.Picture("horizon-volume-types")
	b.do(member, "GET", "/types/"+id+"/extra_specs", "").is(200, `{"extra_specs":{"multiattach":"<is> True"}}`)

	m := logIn(t, dashboard, project, "member")
	var text string
	m.Does(chromedp.Evaluate(typesOfPage, &text, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	require.Contains(t, text, "shared-ssd")
	require.Contains(t, text, "multiattach")
	require.NotContains(t, text, "volume_backend_name")
	require.NotContains(t, text, "nvme-pool")
}

// typesOfPage is how Horizon's pages ask for volume types.
const typesOfPage = `fetch("/api/cinder/volumetypes/", {headers: {"X-Requested-With": "XMLHttpRequest"}}).then(answer => answer.text())`

// regionOf makes a region of Keystone's in which the test's API is, and gives Keystone's address there: Horizon
// shows the region whose identity endpoint it logs in at.
func regionOf(t *testing.T, address string) (keystone string) {
	t.Helper()
	identity, err := openstack.NewIdentityV3(cloudtest.Login(t, "admin"), cloudtest.Endpoint)
	require.NoError(t, err)
	region := "vt12-" + uuid.NewString()[:8]
	_, err = regions.Create(t.Context(), identity, regions.CreateOpts{ID: region}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, regions.Delete(context.Background(), identity, region).ExtractErr()) })
	pages, err := services.List(identity, services.ListOpts{}).AllPages(t.Context())
	require.NoError(t, err)
	all, err := services.ExtractServices(pages)
	require.NoError(t, err)
	keystone = strings.TrimSuffix(strings.Replace(identity.Endpoint, "127.0.0.1", "localhost", 1), "/") // unlike the other region's
	at := map[string]string{"identity": keystone, "volumev3": address + "/volume/v3/$(project_id)s", "compute": address + "/v2.1"}
	for _, s := range all {
		if at[s.Type] == "" {
			continue
		}
		made, err := endpoints.Create(t.Context(), identity, endpoints.CreateOpts{
			Availability: gophercloud.AvailabilityPublic, Region: region, ServiceID: s.ID, URL: at[s.Type], Name: s.Type,
		}).Extract()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, endpoints.Delete(context.Background(), identity, made.ID).ExtractErr()) })
	}
	return keystone
}

//go:embed testdata/horizon.py
var horizonProgram string

// horizonSettings are those that differ from Debian's.
const horizonSettings = `
ALLOWED_HOSTS = ["127.0.0.1"]
SECRET_KEY = %q
OPENSTACK_KEYSTONE_URL = %q
OPENSTACK_KEYSTONE_DEFAULT_DOMAIN = "Default"
STATIC_ROOT = "/var/lib/openstack-dashboard/static"
COMPRESS_OFFLINE = True
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
`

// startHorizon gives the address of a Horizon that logs in at a Keystone.
func startHorizon(t *testing.T, keystone string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "local"), 0o700))
	settings := fmt.Sprintf(horizonSettings, uuid.NewString(), keystone)
	for name, text := range map[string]string{"__init__.py": "", "local_settings.py": settings} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "local", name), []byte(text), 0o600))
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := free.Addr().(*net.TCPAddr).Port
	require.NoError(t, free.Close())

	log := &logged{t: t}
	program := exec.Command("/usr/bin/python3", "-c", horizonProgram, fmt.Sprint(port))
	program.Dir, program.Stdout, program.Stderr = dir, log, log
	program.Env = []string{"PYTHONPATH=" + dir, "PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=" + dir}
	program.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, program.Start())
	t.Cleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	})
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	require.Eventually(t, func() bool {
		answer, err := http.Get(address + "/auth/login/")
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	}, patience, time.Second)
	return address
}

// logged is a test's log, of a program that ends before the test.
type logged struct{ t *testing.T }

func (l *logged) Write(p []byte) (int, error) { return l.t.Output().Write(p) }

// user is one of Horizon's, logged in.
type user struct {
	browser.Browser
	address string
}

// logIn makes a user with a role in the project and logs it in.
func logIn(t *testing.T, address string, project cloudtest.Project, role string) user {
	t.Helper()
	u := user{browser.Open(t), address}
	who, password := project.User(t, role)
	u.goes("/auth/login/?next=/project/api_access/")
	u.Does(chromedp.SendKeys("#id_username", who.Name), chromedp.SendKeys("#id_password", password), chromedp.Submit("#id_password"))
	u.Shows("API Access")
	return u
}

func (u user) goes(path string) { u.Goes(u.address + path) }
