package devcloud_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/stretchr/testify/require"
)

// images gives a client of the image API, found through the catalog.
func (b *bench) imageClient(t *testing.T, user, project string) *gophercloud.ServiceClient {
	t.Helper()
	client, err := openstack.NewImageV2(b.login(t, user, project), gophercloud.EndpointOpts{Region: "RegionOne"})
	require.NoError(t, err)
	require.Equal(t, b.ImageURL()+"/v2/", client.ResourceBaseURL())
	return client
}

func visible(v images.ImageVisibility) *images.ImageVisibility { return &v }

func createImage(t *testing.T, client *gophercloud.ServiceClient, opts images.CreateOpts) *images.Image {
	t.Helper()
	if opts.DiskFormat == "" {
		opts.DiskFormat, opts.ContainerFormat = "raw", "bare"
	}
	img, err := images.Create(t.Context(), client, opts).Extract()
	require.NoError(t, err)
	return img
}

func requireCode(t *testing.T, code int, err error) {
	t.Helper()
	require.Truef(t, gophercloud.ResponseCodeIs(err, code), "not a %d: %v", code, err)
}

func listImages(t *testing.T, client *gophercloud.ServiceClient, opts images.ListOpts) []string {
	t.Helper()
	pages, err := images.List(client, opts).AllPages(t.Context())
	require.NoError(t, err)
	all, err := images.ExtractImages(pages)
	require.NoError(t, err)
	names := []string{}
	for _, img := range all {
		names = append(names, img.Name)
	}
	return names
}

func TestImageLife(t *testing.T) {
	t.Parallel()
	b := setup(t)
	client := b.imageClient(t, "demo", "demo")
	id := uuid.NewString()
	made := createImage(t, client, images.CreateOpts{
		Name: "tiny", ID: id, DiskFormat: "raw", ContainerFormat: "bare", MinDisk: 1, MinRAM: 64, Tags: []string{"b", "a", "b"},
		Visibility: visible(images.ImageVisibilityPrivate), Properties: map[string]string{"hw_tpm_version": "2.0", "os_distro": "debian"},
	})
	require.Equal(t, id, made.ID)
	require.Equal(t, images.ImageStatusQueued, made.Status)
	require.Equal(t, []string{"a", "b"}, made.Tags)
	require.Equal(t, "2.0", made.Properties["hw_tpm_version"])
	require.Nil(t, made.Properties["os_hash_value"])
	require.Len(t, made.Owner, 32)
	require.False(t, made.CreatedAt.IsZero())

	data := bytes.Repeat([]byte("strongroom"), 200_000)
	require.NoError(t, imagedata.Upload(t.Context(), client, id, bytes.NewReader(data)).ExtractErr())
	img, err := images.Get(t.Context(), client, id).Extract()
	require.NoError(t, err)
	sum := sha256.Sum256(data)
	require.Equal(t, images.ImageStatusActive, img.Status)
	require.EqualValues(t, len(data), img.SizeBytes)
	require.EqualValues(t, len(data), img.VirtualSize)
	require.Equal(t, "sha256", img.Properties["os_hash_algo"])
	require.Equal(t, hex.EncodeToString(sum[:]), img.Properties["os_hash_value"])
	requireCode(t, http.StatusConflict, imagedata.Upload(t.Context(), client, id, bytes.NewReader(data)).ExtractErr())

	stream, err := imagedata.Download(t.Context(), client, id).Extract()
	require.NoError(t, err)
	got, err := io.ReadAll(stream)
	require.NoError(t, err)
	require.NoError(t, stream.Close())
	require.Equal(t, data, got)

	require.NoError(t, images.Delete(t.Context(), client, id).ExtractErr())
	_, err = images.Get(t.Context(), client, id).Extract()
	requireCode(t, http.StatusNotFound, err)
	requireCode(t, http.StatusNotFound, images.Delete(t.Context(), client, id).ExtractErr())
	require.Empty(t, listImages(t, client, images.ListOpts{}))
}

func TestImageEdits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	client := b.imageClient(t, "demo", "demo")
	img := createImage(t, client, images.CreateOpts{Name: "before", Properties: map[string]string{"keep": "1", "drop": "2", "change": "3"}})
	edited, err := images.Update(t.Context(), client, img.ID, images.UpdateOpts{
		images.ReplaceImageName{NewName: "after"},
		images.ReplaceImageTags{NewTags: []string{"x"}},
		images.ReplaceImageMinDisk{NewMinDisk: 7},
		images.ReplaceImageProtected{NewProtected: true},
		images.UpdateVisibility{Visibility: images.ImageVisibilityCommunity},
		images.UpdateImageProperty{Op: images.AddOp, Name: "new", Value: "4"},
		images.UpdateImageProperty{Op: images.ReplaceOp, Name: "change", Value: "5"},
		images.UpdateImageProperty{Op: images.RemoveOp, Name: "drop"},
	}).Extract()
	require.NoError(t, err)
	require.Equal(t, "after", edited.Name)
	require.Equal(t, []string{"x"}, edited.Tags)
	require.Equal(t, 7, edited.MinDiskGigabytes)
	require.Equal(t, images.ImageVisibilityCommunity, edited.Visibility)
	require.True(t, edited.Protected)
	require.Equal(t, "1", edited.Properties["keep"])
	require.Equal(t, "4", edited.Properties["new"])
	require.Equal(t, "5", edited.Properties["change"])
	require.NotContains(t, edited.Properties, "drop")
	requireCode(t, http.StatusForbidden, images.Delete(t.Context(), client, img.ID).ExtractErr())

	url, token := b.ImageURL()+"/v2/images/"+img.ID, client.TokenID
	tag := func(method, tag string) int {
		return b.send(t, method, url+"/tags/"+tag, "", "X-Auth-Token", token).status
	}
	require.Equal(t, 204, tag("PUT", "y"))
	require.Equal(t, 204, tag("PUT", "y"))
	require.Equal(t, 204, tag("DELETE", "x"))
	require.Equal(t, 404, tag("DELETE", "x"))
	require.Equal(t, 400, tag("PUT", strings.Repeat("z", 256)))
	const first = "application/openstack-images-v2.0-json-patch"
	for name, tc := range map[string]struct {
		media, body string
		code        int
	}{
		"another media type":       {"application/json", `[]`, 415},
		"no list":                  {"", `{}`, 400},
		"a field of the service":   {"", `[{"op":"replace","path":"/status","value":"active"}]`, 403},
		"the id":                   {"", `[{"op":"replace","path":"/id","value":"x"}]`, 403},
		"a path of two parts":      {"", `[{"op":"add","path":"/a/b","value":"x"}]`, 400},
		"an unknown operation":     {"", `[{"op":"move","path":"/a","value":"x"}]`, 400},
		"replace what is not":      {"", `[{"op":"replace","path":"/none","value":"x"}]`, 409},
		"remove what is not":       {"", `[{"op":"remove","path":"/none"}]`, 409},
		"remove a field":           {"", `[{"op":"remove","path":"/name"}]`, 403},
		"a number for a property":  {"", `[{"op":"add","path":"/n","value":5}]`, 400},
		"text for a number":        {"", `[{"op":"replace","path":"/min_disk","value":"5"}]`, 400},
		"null for a flag":          {"", `[{"op":"replace","path":"/protected","value":null}]`, 400},
		"publish without right":    {"", `[{"op":"replace","path":"/visibility","value":"public"}]`, 403},
		"an unknown visibility":    {"", `[{"op":"replace","path":"/visibility","value":"x"}]`, 400},
		"a negative size":          {"", `[{"op":"replace","path":"/min_ram","value":-1}]`, 400},
		"a step of two that fails": {"", `[{"op":"replace","path":"/name","value":"half"},{"op":"remove","path":"/none"}]`, 409},
		"a step that is none":      {"", `["replace"]`, 400},
		"the form before":          {"", `[{"replace":"/name","value":"x"}]`, 400},
		"the later form":           {first, `[{"op":"replace","path":"/name","value":"x"}]`, 400},
		"two operations":           {first, `[{"add":"/a","replace":"/name","value":"x"}]`, 400},
		"no value":                 {first, `[{"replace":"/name"}]`, 400},
		"add a field":              {first, `[{"add":"/name","value":"x"}]`, 409},
		"add a property again":     {first, `[{"add":"/keep","value":"x"}]`, 409},
		"the first form, a field":  {first, `[{"replace":"/status","value":"active"}]`, 403},
		"the first form, no step":  {first, `[["replace"]]`, 400},
	} {
		if tc.media == "" {
			tc.media = "application/openstack-images-v2.1-json-patch"
		}
		require.Equal(t, tc.code, b.send(t, "PATCH", url, tc.body, "X-Auth-Token", token, "Content-Type", tc.media).status, name)
	}
	got := b.send(t, "PATCH", url, `[{"op":"add","path":"/a~1b~0c","value":"x"}]`, "X-Auth-Token", token, "Content-Type", "application/openstack-images-v2.1-json-patch")
	require.Equal(t, "x", got.json(t)["a/b~c"])
	require.Contains(t, got.json(t), "keep")
	got = b.send(t, "PATCH", url, `[{"add":"/early","value":"1"},{"replace":"/min_ram","value":5},{"remove":"/keep"}]`, "X-Auth-Token", token, "Content-Type", first)
	require.Equal(t, "1", got.json(t)["early"], "%s", got.body)
	require.EqualValues(t, 5, got.json(t)["min_ram"])
	require.NotContains(t, got.json(t), "keep")
	require.Equal(t, "after", got.json(t)["name"], "an edit happens whole or not at all")
	require.Equal(t, []any{"y"}, got.json(t)["tags"])
}

func TestImageCreatesThatFail(t *testing.T) {
	t.Parallel()
	b := setup(t)
	client := b.imageClient(t, "demo", "demo")
	taken := createImage(t, client, images.CreateOpts{Name: "taken"})
	for name, tc := range map[string]struct {
		body string
		code int
	}{
		"no JSON":                {`{`, 400},
		"a list":                 {`[]`, 400},
		"an id that is none":     {`{"id":"x"}`, 400},
		"an id that is taken":    {`{"id":"` + taken.ID + `"}`, 409},
		"the same again":         {`{"id":"` + taken.ID + `","name":"taken","disk_format":"raw","container_format":"bare"}`, 409},
		"a field of the service": {`{"size":5}`, 403},
		"an unknown disk format": {`{"disk_format":"floppy"}`, 400},
		"a property of no text":  {`{"x":{"y":1}}`, 400},
		"a long name":            {`{"name":"` + strings.Repeat("n", 256) + `"}`, 400},
		"public without right":   {`{"visibility":"public"}`, 403},
		"another project's":      {`{"owner":"someone"}`, 403},
		"tags that are none":     {`{"tags":"a"}`, 400},
		"hidden":                 {`{"os_hidden":true}`, 400},
	} {
		got := b.send(t, "POST", b.ImageURL()+"/v2/images", tc.body, "X-Auth-Token", client.TokenID)
		require.Equal(t, tc.code, got.status, "%s: %s", name, got.body)
		require.NotEmpty(t, got.json(t)["message"], name)
	}
	require.Equal(t, []string{"taken"}, listImages(t, client, images.ListOpts{}))
	got := b.send(t, "POST", b.ImageURL()+"/v2/images", `{}`, "X-Auth-Token", client.TokenID)
	require.Equal(t, 201, got.status)
	require.Equal(t, "shared", got.json(t)["visibility"])
	require.Nil(t, got.json(t)["name"])
	require.Equal(t, b.ImageURL()+"/v2/images/"+got.json(t)["id"].(string), got.header.Get("Location"))
}

func TestWhoMayDoWhatWithImages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	demo, alt := b.imageClient(t, "demo", "demo"), b.imageClient(t, "alt", "alt")
	reader, admin := b.imageClient(t, "reader", "demo"), b.imageClient(t, "admin", "admin")
	private := createImage(t, demo, images.CreateOpts{Name: "private", Visibility: visible(images.ImageVisibilityPrivate)})
	public := createImage(t, admin, images.CreateOpts{Name: "public", Visibility: visible(images.ImageVisibilityPublic)})
	community := createImage(t, demo, images.CreateOpts{Name: "community", Visibility: visible(images.ImageVisibilityCommunity)})

	require.ElementsMatch(t, []string{"private", "public", "community"}, listImages(t, demo, images.ListOpts{}))
	require.ElementsMatch(t, []string{"private", "public", "community"}, listImages(t, reader, images.ListOpts{}))
	require.ElementsMatch(t, []string{"public"}, listImages(t, alt, images.ListOpts{}))
	require.ElementsMatch(t, []string{"community"}, listImages(t, alt, images.ListOpts{Visibility: images.ImageVisibilityCommunity}))
	require.ElementsMatch(t, []string{"private", "public"}, listImages(t, admin, images.ListOpts{}))

	_, err := images.Get(t.Context(), alt, private.ID).Extract()
	requireCode(t, 404, err)
	_, err = images.Get(t.Context(), alt, community.ID).Extract()
	require.NoError(t, err)
	_, err = images.Get(t.Context(), admin, private.ID).Extract()
	require.NoError(t, err)

	rename := images.UpdateOpts{images.ReplaceImageName{NewName: "renamed"}}
	for _, tc := range []struct {
		client *gophercloud.ServiceClient
		id     string
		code   int
	}{
		{reader, private.ID, 403},
		{alt, private.ID, 404},
		{alt, community.ID, 403},
		{demo, public.ID, 403},
	} {
		_, err := images.Update(t.Context(), tc.client, tc.id, rename).Extract()
		requireCode(t, tc.code, err)
		requireCode(t, tc.code, images.Delete(t.Context(), tc.client, tc.id).ExtractErr())
		requireCode(t, tc.code, imagedata.Upload(t.Context(), tc.client, tc.id, strings.NewReader("x")).ExtractErr())
	}
	_, err = images.Create(t.Context(), reader, images.CreateOpts{Name: "x"}).Extract()
	requireCode(t, 403, err)

	_, err = images.Update(t.Context(), admin, private.ID, rename).Extract()
	require.NoError(t, err)
	require.NoError(t, images.Delete(t.Context(), admin, private.ID).ExtractErr())
	unscoped := b.login(t, "demo", "").TokenID
	require.Equal(t, 403, b.send(t, "GET", b.ImageURL()+"/v2/images", "", "X-Auth-Token", unscoped).status)
}

func TestImageLists(t *testing.T) {
	t.Parallel()
	b := setup(t)
	client := b.imageClient(t, "demo", "demo")
	for _, name := range []string{"c", "a", "e", "b", "d"} {
		createImage(t, client, images.CreateOpts{Name: name, Tags: []string{"tag-" + name}, Properties: map[string]string{"letter": name}})
	}
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, listImages(t, client, images.ListOpts{Sort: "name:asc"}))
	require.Equal(t, []string{"e", "d", "c", "b", "a"}, listImages(t, client, images.ListOpts{SortKey: "name", SortDir: "desc", Limit: 2}))
	require.Equal(t, []string{"b"}, listImages(t, client, images.ListOpts{Name: "b"}))
	require.Equal(t, []string{"c"}, listImages(t, client, images.ListOpts{Tags: []string{"tag-c"}}))
	require.Empty(t, listImages(t, client, images.ListOpts{Status: images.ImageStatusActive}))
	require.Empty(t, listImages(t, client, images.ListOpts{Tags: []string{"tag-c", "tag-a"}}))

	get := func(query string) answer {
		return b.send(t, "GET", b.ImageURL()+"/v2/images"+query, "", "X-Auth-Token", client.TokenID)
	}
	page := get("?limit=2&sort=name:asc").json(t)
	require.Len(t, page["images"], 2)
	require.Contains(t, page["next"], "limit=2")
	require.Contains(t, page["next"], "marker=")
	require.NotContains(t, get("?limit=5").json(t), "next")
	require.Len(t, get("?letter=d").json(t)["images"], 1)
	require.Len(t, get("?name=in:a,e").json(t)["images"], 2)
	require.Empty(t, get("?os_hidden=True").json(t)["images"])
	require.Empty(t, get("?size_min=1").json(t)["images"])
	for _, query := range []string{"?limit=x", "?limit=-1", "?marker=" + uuid.NewString(), "?sort=weight", "?sort=name:up", "?size_min=x"} {
		require.Equal(t, 400, get(query).status, query)
	}
}

func TestImageUploadsThatFail(t *testing.T) {
	t.Parallel()
	b := setup(t)
	client := b.imageClient(t, "demo", "demo")
	img := createImage(t, client, images.CreateOpts{Name: "x", DiskFormat: "qcow2", ContainerFormat: "bare"})
	file := b.ImageURL() + "/v2/images/" + img.ID + "/file"
	require.Equal(t, 415, b.send(t, "PUT", file, "x", "X-Auth-Token", client.TokenID, "Content-Type", "text/plain").status)
	got := b.send(t, "PUT", file, "noise", "X-Auth-Token", client.TokenID, "Content-Type", "application/octet-stream")
	require.Equal(t, 400, got.status)
	require.Contains(t, got.json(t)["message"], "is not qcow2")
	require.Equal(t, 204, b.send(t, "GET", file, "", "X-Auth-Token", client.TokenID).status, "there is no data yet")
}

// A client must not take damaged data for whole: the answer breaks off.
func TestADamagedImageBreaksOff(t *testing.T) {
	t.Parallel()
	b := setup(t)
	client := b.imageClient(t, "demo", "demo")
	for _, size := range []int{1, 1000, 256 << 10, 1<<20 + 1} {
		img := createImage(t, client, images.CreateOpts{Name: "x"})
		require.NoError(t, imagedata.Upload(t.Context(), client, img.ID, bytes.NewReader(make([]byte, size))).ExtractErr())
		found, err := filepath.Glob(filepath.Join(filepath.Dir(b.cfg.UsersFile), "images", img.ID+".*"))
		require.NoError(t, err)
		for _, path := range found {
			if !strings.HasSuffix(path, ".json") {
				require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte{1}, size), 0o600))
			}
		}
		stream, err := imagedata.Download(t.Context(), client, img.ID).Extract()
		if err != nil {
			continue // broke off before the first byte
		}
		got, err := io.ReadAll(stream)
		require.Error(t, err)
		require.Less(t, len(got), size)
		require.NoError(t, stream.Close())
	}
	require.Contains(t, b.log.String(), "a download broke off")
}

func TestImageDocumentsOfTheService(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for path, code := range map[string]int{"": 300, "/": 300, "/v2": 300, "/v2/": 300, "/versions": 200} {
		got := b.send(t, "GET", b.ImageURL()+path, "")
		require.Equal(t, code, got.status, path)
		require.Len(t, got.json(t)["versions"], 10)
		require.Contains(t, string(got.body), b.ImageURL()+"/v2/")
	}
	token := b.login(t, "demo", "demo").TokenID
	for _, name := range []string{"image", "images"} {
		got := b.send(t, "GET", b.ImageURL()+"/v2/schemas/"+name, "", "X-Auth-Token", token)
		require.Equal(t, 200, got.status)
		require.Equal(t, name, got.json(t)["name"])
	}
}
