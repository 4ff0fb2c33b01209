package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// imageRequests are requests for an image, ID, with the version after which Nova has them no more.
var imageRequests = []struct{ method, path, body, last, first string }{
	{"GET", "/images", "", "2.35", "2.36"},
	{"GET", "/images/detail", "", "2.35", "2.36"},
	{"GET", "/images/ID", "", "2.35", "2.36"},
	{"DELETE", "/images/ID", "", "2.35", "2.36"},
	{"GET", "/images/ID/metadata", "", "2.38", "2.39"},
	{"POST", "/images/ID/metadata", `{"metadata":{"a":"b"}}`, "2.38", "2.39"},
	{"PUT", "/images/ID/metadata", `{"metadata":{"color":"blue"}}`, "2.38", "2.39"},
	{"GET", "/images/ID/metadata/color", "", "2.38", "2.39"},
	{"PUT", "/images/ID/metadata/color", `{"meta":{"color":"red"}}`, "2.38", "2.39"},
	{"DELETE", "/images/ID/metadata/color", "", "2.38", "2.39"},
}

func TestImagesUpToTheVersionsOfNova(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	for _, r := range imageRequests {
		for _, version := range []string{"2.1", r.last} {
			id := c.addOwnImage(func(img *compute.Image) { img.Properties["color"] = "blue" })
			want := http.StatusOK
			if r.method == "DELETE" {
				want = http.StatusNoContent
			}
			c.do(t, member, r.method, strings.Replace(r.path, "ID", id, 1), r.body, at(version)).ok(want)
		}
		path := strings.Replace(r.path, "ID", c.image, 1)
		c.do(t, member, r.method, path, r.body, at(r.first)).fails(404, "itemNotFound", "API version "+r.first+" is not supported on this method.")
	}
}

func TestImagesWhileTheImageStoreIsAway(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.imageStore.down = true
	for _, r := range imageRequests {
		got := c.do(t, member, r.method, strings.Replace(r.path, "ID", c.image, 1), r.body, at("2.35"))
		got.fails(503, "serviceUnavailable", "the image store does not answer")
		require.NotEmpty(t, got.header.Get("Retry-After"), r.path)
	}
}

// A credential without a project is the operator's own: to whom a store of strongroom's own would list all projects' images.
func TestImagesAreAProjects(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.addOwnImage(nil)
	for _, r := range imageRequests {
		why := "Images are asked for with a token of a project."
		if r.method == "GET" {
			why = noReading
		}
		c.do(t, unscoped, r.method, strings.Replace(r.path, "ID", id, 1), r.body, at("2.1")).fails(403, "forbidden", why)
	}
	require.Empty(t, c.imageStore.asked)
}

const noReading = "Policy doesn't allow strongroom:images:read to be performed."

// A store of strongroom's own knows no roles: a token of the project without one reads nothing there.
func TestImagesAreReadByReaders(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.addOwnImage(func(img *compute.Image) { img.Properties["color"] = "blue" })
	for _, r := range imageRequests {
		if r.method == "GET" {
			path := strings.Replace(r.path, "ID", id, 1)
			c.do(t, powerless, r.method, path, "", at("2.35")).fails(403, "forbidden", noReading)
			c.do(t, reader, r.method, path, "", at("2.35")).ok(200)
		}
	}
}

func TestImageAsNovaShowsIt(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	server := uuid.NewString()
	id := c.addOwnImage(func(img *compute.Image) {
		img.MinRAMMB, img.MinDiskGB, img.SizeBytes = 64, 3, 1<<20
		img.CreatedAt, img.UpdatedAt = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		img.Properties = map[string]string{"instance_uuid": server, "image_type": "snapshot", "auto_disk_config": "True"}
	})
	for in, prefix := range map[string]string{"": "", "/" + project: "/" + project} {
		link := func(rel, path string) string {
			return `{"rel":"` + rel + `","href":"http://cloud.example:8774` + path + `"}`
		}
		both := func(path string) string {
			return link("self", "/v2.1"+prefix+path) + "," + link("bookmark", prefix+path)
		}
		alternate := `{"rel":"alternate","type":"application/vnd.openstack.image","href":"http://image.example/images/` + id + `"}`
		want := `{"id":"` + id + `","name":"tiny","minRam":64,"minDisk":3,"created":"2026-11-20T12:00:00Z","updated":"2026-11-21T12:00:00Z",
			"status":"ACTIVE","progress":100,"OS-EXT-IMG-SIZE:size":1048576,"OS-DCF:diskConfig":"AUTO",
			"metadata":{"instance_uuid":"` + server + `","image_type":"snapshot","auto_disk_config":"True"},
			"server":{"id":"` + server + `","links":[` + both("/servers/"+server) + `]},
			"links":[` + both("/images/"+id) + `,` + alternate + `]}`
		c.do(t, member, "GET", in+"/images/"+id, "", at("2.35")).is(200, `{"image":`+want+`}`)
		c.do(t, member, "GET", in+"/images/detail?type=snapshot", "", at("2.1")).is(200, `{"images":[`+want+`]}`)
		c.do(t, member, "GET", in+"/images?type=snapshot", "", at("2.1")).
			is(200, `{"images":[{"id":"`+id+`","name":"tiny","links":[`+both("/images/"+id)+`,`+alternate+`]}]}`)
	}
}

func TestImageStatesInNovasWords(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	for status, want := range map[string]struct {
		shown    string
		progress float64
	}{
		"active": {"ACTIVE", 100}, "queued": {"SAVING", 25}, "saving": {"SAVING", 50}, "deleted": {"DELETED", 0}, "pending_delete": {"DELETED", 0},
		"killed": {"ERROR", 0}, "deactivated": {"UNKNOWN", 0}, "importing": {"UNKNOWN", 0},
	} {
		id := c.addOwnImage(func(img *compute.Image) { img.Status, img.Name = status, "" })
		got := c.do(t, reader, "GET", "/images/"+id, "", at("2.1")).ok(200)
		require.Equal(t, want.shown, got.get("image", "status"), status)
		require.InDelta(t, want.progress, got.get("image", "progress"), 0, status)
		require.Nil(t, got.get("image", "name"))
	}
	for text, want := range map[string]string{"True": "AUTO", "yes": "AUTO", "1": "AUTO", "0": "MANUAL", "no": "MANUAL", "odd": "MANUAL", "": "MANUAL"} {
		id := c.addOwnImage(func(img *compute.Image) {
			img.Properties["auto_disk_config"], img.Properties["instance_uuid"] = text, "odd"
		})
		got := c.do(t, reader, "GET", "/images/"+id, "", at("2.1")).ok(200)
		require.Equal(t, want, got.get("image", "OS-DCF:diskConfig"), text)
		require.NotContains(t, got.keys("image"), "server", "no server has such an id")
	}
	require.NotContains(t, c.do(t, reader, "GET", "/images/"+c.image, "", at("2.1")).ok(200).keys("image"), "OS-DCF:diskConfig")
}

func TestImageDelete(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id, protected := c.addOwnImage(nil), c.addOwnImage(func(img *compute.Image) { img.Protected = true })
	const refused = "You are not allowed to delete the image."
	c.do(t, reader, "DELETE", "/images/"+id, "", at("2.35")).fails(403, "forbidden", refused)
	c.do(t, stranger, "DELETE", "/images/"+id, "", at("2.35")).fails(404, "itemNotFound", "Image not found.")
	c.do(t, member, "DELETE", "/images/"+c.image, "", at("2.35")).fails(403, "forbidden", refused)
	c.do(t, admin, "DELETE", "/images/"+c.image, "", at("2.35")).fails(403, "forbidden", refused)
	c.do(t, member, "DELETE", "/images/"+protected, "", at("2.35")).fails(403, "forbidden", refused)
	require.Len(t, c.imageStore.images, 3)
	c.do(t, member, "DELETE", "/images/"+id, "", at("2.35")).is(204, "")
	require.Len(t, c.imageStore.images, 2)
	for _, none := range []string{id, uuid.NewString(), "-1", "11a22b9-12a9-5555-cc11-00ab112223fa", "none"} {
		for _, method := range []string{"GET", "DELETE"} {
			c.do(t, member, method, "/images/"+none, "", at("2.35")).fails(404, "itemNotFound", "Image not found.")
		}
	}
}

// Whoever may open an image, Nova's clients are told nothing of with which secret, in no answer and by no filter.
func TestImagesTellNoSecretThatOpensThem(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	secret := uuid.NewString()
	opens := append(compute.NamingProperties(), "os_encrypt_format", "os_decrypt_size")
	id := c.addOwnImage(func(img *compute.Image) {
		for _, name := range opens {
			img.Properties[name] = secret
		}
		img.Properties["hw_ephemeral_encryption"] = "true"
	})
	shown := map[string]any{"hw_ephemeral_encryption": "true"}
	require.Equal(t, shown, c.do(t, admin, "GET", "/images/"+id, "", at("2.35")).ok(200).get("image", "metadata"))
	require.Equal(t, shown, c.do(t, member, "GET", "/images/"+id+"/metadata", "", at("2.38")).ok(200).get("metadata"))
	require.NotContains(t, c.do(t, member, "GET", "/images/detail", "", at("2.35")).ok(200).body, secret)
	for _, name := range opens {
		require.Empty(t, c.do(t, member, "GET", "/images?property-"+name+"="+secret, "", at("2.35")).ok(200).get("images"), name)
		item := "/images/" + id + "/metadata/" + name
		c.do(t, member, "GET", item, "", at("2.35")).fails(404, "itemNotFound", "The resource could not be found.")
		c.do(t, member, "DELETE", item, "", at("2.35")).fails(404, "itemNotFound", "Invalid metadata key")
	}
	require.Len(t, c.properties(id), len(opens)+1)
}
