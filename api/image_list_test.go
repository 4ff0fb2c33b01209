package api_test

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
)

// imageNames are the names of a page, in its order.
func imageNames(a answer) string {
	a.t.Helper()
	var all []string
	for _, img := range a.get("images").([]any) {
		all = append(all, img.(map[string]any)["name"].(string))
	}
	return strings.Join(all, " ")
}

// setupImages gives a cloud with images that were made on one day after the other, beside a public one and one of another project.
func setupImages(t *testing.T, names ...string) *cloud {
	t.Helper()
	c := setupCloud(t)
	for day, name := range names {
		c.addOwnImage(func(img *compute.Image) {
			img.Name, img.CreatedAt = name, time.Date(2026, 11, 20+day, 12, 0, 0, 0, time.UTC)
			img.UpdatedAt = img.CreatedAt
		})
	}
	c.addImage(func(img *compute.Image) { img.Name, img.Visibility, img.Owner = "theirs", "private", elsewhere })
	return c
}

// change changes an image that the store has.
func (c *cloud) change(name string, do func(*compute.Image)) {
	for _, img := range c.imageStore.images {
		if img.Name == name {
			do(&img)
			c.imageStore.put(img)
		}
	}
}

func TestImageFilters(t *testing.T) {
	t.Parallel()
	c := setupImages(t, "alpha", "beta", "gamma")
	server := uuid.NewString()
	c.change("alpha", func(img *compute.Image) { img.MinDiskGB, img.Properties = 2, map[string]string{"os_distro": "debian"} })
	c.change("beta", func(img *compute.Image) {
		img.Status, img.MinRAMMB = "queued", 128
		img.Properties = map[string]string{"image_type": "snapshot", "instance_uuid": server}
	})
	c.change("gamma", func(img *compute.Image) { img.Status = "killed" })
	for query, want := range map[string]string{
		"": "gamma beta alpha tiny", "unknown=x": "gamma beta alpha tiny",
		"name=beta": "beta", "name=bet": "", "name=alpha&name=beta": "beta",
		"status=ACTIVE": "alpha tiny", "status=active": "alpha tiny", "status=SAVING": "beta", "status=queued": "beta", "status=ERROR": "gamma", "status=odd": "",
		"server=" + server: "beta", "server=" + url.QueryEscape("http://cloud.example:8774/v2.1/servers/"+server): "beta", "server=" + uuid.NewString(): "",
		"type=snapshot": "beta", "type=backup": "", "minRam=128": "beta", "minRam=0&minDisk=2": "alpha",
		"changes-since=2026-11-21T12:00:00Z": "gamma beta", "changes-since=2026-11-21T12:00:01Z": "gamma",
		"property-os_distro=debian": "alpha", "property-os_distro=": "", "property-none=": "",
		"status=ACTIVE&name=alpha": "alpha", "status=ERROR&name=alpha": "",
	} {
		for _, version := range []string{"2.1", "2.35"} {
			for _, path := range []string{"/images?", "/images/detail?"} {
				require.Equal(t, want, imageNames(c.do(t, member, "GET", path+query, "", at(version)).ok(200)), "%s%s", path, query)
			}
		}
	}
	for query, message := range map[string]string{
		"changes-since=yesterday": "Invalid changes-since value", "minRam=much": "Invalid minRam filter [much]", "minDisk=": "Invalid minDisk filter []",
	} {
		c.do(t, member, "GET", "/images?"+query, "", at("2.1")).fails(400, "badRequest", message)
	}
}

// Each image is on one page, the newest on the first, however many a page has and the image store gives at once.
func TestImagePages(t *testing.T) {
	t.Parallel()
	c := setupImages(t, "a", "b", "c", "d", "e")
	for _, asked := range []struct{ path, want string }{
		{"/images?limit=1", "e d c b a tiny"}, {"/images/detail?limit=2", "e d c b a tiny"}, {"/images?limit=4&name=b", "b"}, {"/images/detail?limit=1000", "e d c b a tiny"},
	} {
		var all []string
		for path := asked.path; path != ""; {
			got := c.do(t, member, "GET", path, "", at("2.35")).ok(200)
			path = ""
			if slices.Contains(got.keys(), "images_links") {
				path = strings.TrimPrefix(got.get("images_links", 0, "href").(string), "http://cloud.example:8774/v2.1")
			}
			if page := imageNames(got); page != "" {
				all = append(all, page)
			}
		}
		require.Equal(t, asked.want, strings.Join(all, " "), asked.path)
	}
	require.Empty(t, c.do(t, member, "GET", "/images?limit=0", "", at("2.1")).ok(200).get("images"))
	for _, marker := range []string{uuid.NewString(), "none"} {
		c.do(t, member, "GET", "/images?marker="+marker, "", at("2.1")).fails(400, "badRequest", "marker ["+marker+"] not found")
	}
	for id, img := range c.imageStore.images {
		if img.Name == "theirs" { // is not told to be there
			c.do(t, member, "GET", "/images?marker="+id.String(), "", at("2.1")).fails(400, "badRequest", "marker ["+id.String()+"] not found")
		}
	}
	for _, query := range []string{"limit=-1", "limit=x"} {
		c.do(t, member, "GET", "/images/detail?"+query, "", at("2.1")).ok(400)
	}
}

// A page ends where its images' properties are too many bytes, and links the next one; a list that shows none does not.
func TestImagePageIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	c := setupImages(t, "a", "b", "c")
	for _, name := range []string{"a", "b", "c"} {
		c.change(name, func(img *compute.Image) { img.Properties = map[string]string{"much": strings.Repeat("x", 2<<20)} })
	}
	got := c.do(t, member, "GET", "/images/detail", "", at("2.35")).ok(200)
	require.Equal(t, "c b", imageNames(got))
	next := strings.TrimPrefix(got.get("images_links", 0, "href").(string), "http://cloud.example:8774/v2.1")
	require.Equal(t, "a tiny", imageNames(c.do(t, member, "GET", next, "", at("2.35")).ok(200)))
	require.Equal(t, "c b a tiny", imageNames(c.do(t, member, "GET", "/images", "", at("2.35")).ok(200)))
}

// The image store is asked for what it filters by itself. Where few images are wanted a page ends all the same, and its next one
// begins behind the last that was looked at.
func TestImagesThatAreLookedAtForAPage(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	first := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for n := range 100 {
		c.addOwnImage(func(img *compute.Image) {
			img.Name, img.CreatedAt = strconv.Itoa(n), first.Add(time.Duration(n)*time.Minute)
		})
	}
	got := c.do(t, member, "GET", "/images?limit=1&type=nosuch", "", at("2.35")).ok(200)
	require.Empty(t, got.get("images"))
	const parts = api.MaxLimit / 25
	require.Len(t, c.imageStore.asked, parts)
	next, err := url.Parse(got.get("images_links", 0, "href").(string))
	require.NoError(t, err)
	last := compute.ImageID{UUID: uuid.MustParse(next.Query().Get("marker"))}
	require.Equal(t, strconv.Itoa(100-parts*partOfImages), c.imageStore.images[last].Name)
	got = c.do(t, member, "GET", strings.TrimPrefix(next.RequestURI(), "/v2.1"), "", at("2.35")).ok(200)
	require.Empty(t, got.get("images"))
	require.NotContains(t, got.keys(), "images_links")

	c.imageStore.asked = nil
	for query, asked := range map[string]api.ImageList{
		"name=nosuch&limit=1":      {Name: "nosuch"},
		"name=nosuch&status=error": {Name: "nosuch", Statuses: []string{"killed"}},
		"name=7&status=saving":     {Name: "7", Statuses: []string{"queued", "saving"}},
	} {
		c.imageStore.asked, asked.Limit = nil, 25
		c.do(t, member, "GET", "/images/detail?"+query, "", at("2.1")).is(200, `{"images":[]}`)
		require.Equal(t, []api.ImageList{asked}, c.imageStore.asked, query)
	}
}

// A project makes one list of images at a time, for each may hold megabytes; another project does not wait for it.
func TestListsOfImagesTakeTurns(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	began, gate := make(chan string, 3), make(chan struct{})
	c.imageStore.lists = func(cred compute.Credential) {
		began <- cred.ProjectID
		<-gate
	}
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	list := func(as who, path string) func() answer {
		return waiting(t, func() answer { return c.do(t, as, "GET", path, "", at("2.35")) })
	}
	answers := []func() answer{list(member, "/images"), list(reader, "/images/detail"), list(stranger, "/images")}
	require.Equal(t, project, <-began)
	require.Equal(t, elsewhere, <-began)
	require.Empty(t, began)
	open()
	for _, answered := range answers {
		answered().ok(200)
	}
	require.Equal(t, project, <-began)
}
