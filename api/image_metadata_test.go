package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestImageMetadata(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	for _, version := range []string{"2.1", "2.35", "2.38"} {
		id := c.addOwnImage(func(img *compute.Image) { img.Properties["old"] = "gone" })
		all, item := "/images/"+id+"/metadata", "/images/"+id+"/metadata/os_version"
		do := func(method, path, body string) answer { return c.do(t, member, method, path, body, at(version)) }
		do("PUT", all, `{"metadata":{"os_version":"value1","os_distro":"value2"}}`).is(200, `{"metadata":{"os_version":"value1","os_distro":"value2"}}`)
		do("GET", all, "").is(200, `{"metadata":{"os_version":"value1","os_distro":"value2"}}`)
		do("POST", all, `{"metadata":{"os_version":"alt1","architecture":"value3"}}`).
			is(200, `{"metadata":{"os_version":"alt1","os_distro":"value2","architecture":"value3"}}`)
		do("GET", item, "").is(200, `{"meta":{"os_version":"alt1"}}`)
		do("PUT", item, `{"meta":{"os_version":"alt2"}}`).is(200, `{"meta":{"os_version":"alt2"}}`)
		require.Equal(t, map[string]string{"os_version": "alt2", "os_distro": "value2", "architecture": "value3"}, c.properties(id))
		do("DELETE", item, "").is(204, "")
		do("DELETE", item, "").fails(404, "itemNotFound", "Invalid metadata key")
		do("GET", item, "").fails(404, "itemNotFound", "The resource could not be found.")
		require.Equal(t, map[string]string{"os_distro": "value2", "architecture": "value3"}, c.properties(id))
		do("PUT", all, `{"metadata":{}}`).is(200, `{"metadata":{}}`)
		require.Empty(t, c.properties(id))
	}
}

func TestImageMetadataThatIsRefused(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.addOwnImage(func(img *compute.Image) { img.Properties["color"] = "blue" })
	all := "/images/" + id + "/metadata"
	long := strings.Repeat("x", 256)
	for _, body := range []string{
		"", `{}`, `{"metadata":null}`, `{"metadata":[]}`, `{"metadata":{"a":1}}`, `{"metadata":{"a":null}}`, `{"metadata":{"":"a"}}`, `{"metadata":{"a/b":"c"}}`,
		`{"metadata":{"` + long + `":"a"}}`, `{"metadata":{"a":"` + long + `"}}`, `{"metadata":{},"more":1}`, `{"meta":{"color":"red"}}`,
	} {
		for _, method := range []string{"POST", "PUT"} {
			c.do(t, member, method, all, body, at("2.35")).ok(400)
		}
	}
	for _, body := range []string{"", `{}`, `{"meta":{}}`, `{"meta":{"color":"red","a":"b"}}`, `{"meta":{"color":1}}`, `{"metadata":{"color":"red"}}`} {
		c.do(t, member, "PUT", all+"/color", body, at("2.35")).ok(400)
	}
	c.do(t, member, "PUT", all+"/color", `{"meta":{"shape":"round"}}`, at("2.35")).fails(400, "badRequest", "Request body and URI mismatch")
	require.Equal(t, map[string]string{"color": "blue"}, c.properties(id))
	for _, r := range imageRequests[4:] {
		path := func(id string) string { return strings.Replace(r.path, "ID", id, 1) }
		for _, none := range []string{uuid.NewString(), "-1"} {
			c.do(t, member, r.method, path(none), r.body, at("2.35")).fails(404, "itemNotFound", "Image not found.")
		}
		c.do(t, stranger, r.method, path(id), r.body, at("2.35")).fails(404, "itemNotFound", "Image not found.")
		if r.method == "GET" {
			continue
		}
		c.change("tiny", func(img *compute.Image) { img.Properties["color"] = "blue" })
		c.do(t, reader, r.method, path(id), r.body, at("2.35")).fails(403, "forbidden", "Not authorized for image "+id+".")
		for _, as := range []who{member, admin} { // everybody sees it, and nobody here has made it
			c.do(t, as, r.method, path(c.image), r.body, at("2.35")).fails(403, "forbidden", "Not authorized for image "+c.image+".")
		}
	}
	require.Equal(t, map[string]string{"color": "blue"}, c.properties(id))
}

// What says how an image is opened is neither changed nor lost by who replaces all of its metadata.
func TestImageMetadataLeavesWhatOpensAnImage(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	opens := map[string]string{"os_encrypt_key_id": uuid.NewString(), "os_encrypt_format": "LUKSv1", "os_decrypt_size": "7", "hw_ephemeral_encryption_secret_uuid": uuid.NewString(),
		"cinder_encryption_key_id": uuid.NewString()}
	id := c.addOwnImage(func(img *compute.Image) { img.Properties = maps.Clone(opens); img.Properties["color"] = "blue" })
	all := "/images/" + id + "/metadata"
	for name := range opens {
		message := "Property " + name + " says how an image is opened. Ask the image service itself."
		for _, method := range []string{"POST", "PUT"} {
			c.do(t, admin, method, all, `{"metadata":{"a":"b","`+name+`":"x"}}`, at("2.35")).fails(400, "badRequest", message)
		}
		c.do(t, member, "PUT", all+"/"+name, `{"meta":{"`+name+`":"x"}}`, at("2.35")).fails(400, "badRequest", message)
	}
	c.do(t, member, "PUT", all, `{"metadata":{"a":"b"}}`, at("2.35")).is(200, `{"metadata":{"a":"b"}}`)
	want := maps.Clone(opens)
	want["a"] = "b"
	require.Equal(t, want, c.properties(id))
	c.do(t, member, "POST", all, `{"metadata":{"c":"d"}}`, at("2.35")).is(200, `{"metadata":{"a":"b","c":"d"}}`)
}

// The workflow of a snapshot says how the image is opened when the record is there already, maybe between a request's look at the
// image and its change.
func TestImageMetadataLeavesWhatIsSaidMeanwhile(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	opens := map[string]string{"os_encrypt_key_id": uuid.NewString(), "os_encrypt_format": "LUKSv1"}
	c.imageStore.seen = func(img *compute.Image) { maps.Copy(img.Properties, opens) }
	for _, r := range imageRequests[4:] {
		if r.method == "GET" {
			continue
		}
		id := c.addOwnImage(func(img *compute.Image) { img.Properties["color"] = "blue" })
		got := c.do(t, member, r.method, strings.Replace(r.path, "ID", id, 1), r.body, at("2.35"))
		require.Less(t, got.code, 300, got.body)
		require.NotContains(t, got.body, opens["os_encrypt_key_id"])
		now := c.properties(id)
		for name, value := range opens {
			require.Equal(t, value, now[name], "%s %s", r.method, r.path)
		}
	}
	// What else is given meanwhile stays, too, unless all is replaced.
	id := c.addOwnImage(nil)
	c.imageStore.seen = func(img *compute.Image) { img.Properties["theirs"] = "kept" }
	c.do(t, member, "POST", "/images/"+id+"/metadata", `{"metadata":{"a":"b"}}`, at("2.35")).is(200, `{"metadata":{"a":"b","theirs":"kept"}}`)
	require.Equal(t, map[string]string{"a": "b", "theirs": "kept"}, c.properties(id))
}

// An image is protected from a delete alone.
func TestImageMetadataOfAProtectedImage(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.addOwnImage(func(img *compute.Image) { img.Protected, img.Properties["color"] = true, "blue" })
	for _, r := range imageRequests[4:] {
		got := c.do(t, member, r.method, strings.Replace(r.path, "ID", id, 1), r.body, at("2.35"))
		require.Less(t, got.code, 300, "%s %s: %s", r.method, r.path, got.body)
	}
	require.Empty(t, c.properties(id))
}

func TestImageMetadataHasTheQuotaOfMetadata(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	of := func(items int) string {
		metadata := map[string]string{}
		for i := range items {
			metadata[fmt.Sprint("key", i)] = "value"
		}
		text, err := json.Marshal(map[string]any{"metadata": metadata})
		require.NoError(t, err)
		return string(text)
	}
	const refused = "Image metadata limit exceeded"
	id := c.addOwnImage(nil)
	all := "/images/" + id + "/metadata"
	c.do(t, member, "PUT", all, of(129), at("2.1")).fails(403, "forbidden", refused)
	c.do(t, member, "PUT", all, of(128), at("2.1")).ok(200)
	c.do(t, admin, "PUT", "/os-quota-sets/"+project, `{"quota_set":{"metadata_items":2}}`, at("2.1")).ok(200)
	c.do(t, member, "PUT", all, of(127), at("2.1")).ok(200) // what shrinks is not looked at
	c.do(t, member, "POST", all, `{"metadata":{"key0":"other"}}`, at("2.1")).ok(200)
	c.do(t, member, "POST", all, `{"metadata":{"more":"value"}}`, at("2.1")).fails(403, "forbidden", refused)
	c.do(t, member, "PUT", all+"/more", `{"meta":{"more":"value"}}`, at("2.1")).fails(403, "forbidden", refused)
	c.do(t, member, "DELETE", all+"/key0", "", at("2.1")).ok(204)
	c.do(t, member, "PUT", all, of(2), at("2.1")).ok(200)
	c.do(t, member, "PUT", all, of(3), at("2.1")).fails(403, "forbidden", refused)
	require.Len(t, c.properties(id), 2)
}
