package glance

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"strongroom/activities/image"
	"strongroom/compute"
)

// record is an image with what Glance says of its data.
type record struct {
	compute.Image
	algorithm, digest string // os_hash_algo and os_hash_value
}

// reserved are the names in Glance's document that are no properties.
var reserved = []string{
	"id", "name", "status", "visibility", "protected", "owner", "tags", "size", "virtual_size", "checksum", "min_disk",
	"min_ram", "disk_format", "container_format", "created_at", "updated_at", "file", "schema", "self", "locations",
	"direct_url", "stores", "os_hidden", "os_hash_algo", "os_hash_value", "metadata",
}

// recordOf reads Glance's document.
func recordOf(doc *images.Image) (record, error) {
	id, err := uuid.Parse(doc.ID)
	if err != nil {
		return record{}, compute.Errorf(compute.Corrupt, "the image store gave an image whose id is no uuid")
	}
	r := record{Image: compute.Image{
		ID: compute.ImageID{UUID: id}, Name: doc.Name, Status: string(doc.Status),
		DiskFormat: doc.DiskFormat, ContainerFormat: doc.ContainerFormat,
		SizeBytes: doc.SizeBytes, VirtualBytes: doc.VirtualSize,
		MinDiskGB: doc.MinDiskGigabytes, MinRAMMB: doc.MinRAMMegabytes,
		Owner: doc.Owner, Visibility: string(doc.Visibility), Protected: doc.Protected,
		CreatedAt: doc.CreatedAt.UTC(), UpdatedAt: doc.UpdatedAt.UTC(),
	}}
	if len(doc.Tags) > 0 {
		r.Tags = doc.Tags
	}
	for name, value := range doc.Properties {
		text, isText := value.(string)
		if !isText || slices.Contains(reserved, name) {
			continue // null is a property that is not set
		}
		if r.Properties == nil {
			r.Properties = map[string]string{}
		}
		r.Properties[name] = text
	}
	r.algorithm, _ = doc.Properties["os_hash_algo"].(string)
	r.digest, _ = doc.Properties["os_hash_value"].(string)
	r.Image = sorted(r.Image)
	if r.Status != image.StatusActive {
		r.SizeBytes, r.VirtualBytes, r.algorithm, r.digest = 0, 0, "", ""
	}
	switch r.algorithm {
	case "sha256":
		r.SHA256 = r.digest
	case "sha512": // Glance's own choice where the operator made none
		r.SHA512 = r.digest
	}
	if r.VirtualBytes == 0 && r.DiskFormat == "raw" {
		r.VirtualBytes = r.SizeBytes
	}
	return r, nil
}

// sorted gives the image with its tags in order: Glance keeps a set.
func sorted(img compute.Image) compute.Image {
	img.Tags = slices.Clone(img.Tags)
	slices.Sort(img.Tags)
	return img
}

// document is the body of a request to create an image.
type document map[string]any

// ToImageCreateMap implements images.CreateOptsBuilder.
func (d document) ToImageCreateMap() (map[string]any, error) { return d, nil }

func creation(img compute.Image) (document, error) {
	d := document{
		"id": img.ID.String(), "name": img.Name, "visibility": img.Visibility, "protected": img.Protected,
		"min_disk": img.MinDiskGB, "min_ram": img.MinRAMMB, "tags": append([]string{}, img.Tags...),
	}
	for name, value := range map[string]string{"disk_format": img.DiskFormat, "container_format": img.ContainerFormat} {
		if value != "" {
			d[name] = value
		}
	}
	for name, value := range img.Properties {
		if err := checkProperty(name); err != nil {
			return nil, err
		}
		d[name] = value
	}
	return d, nil
}

func checkProperty(name string) error {
	if name == "" || slices.Contains(reserved, name) {
		return compute.Errorf(compute.Invalid, "%q cannot be the name of an image's property", name)
	}
	return nil
}

// patch is a JSON patch in Glance's form.
type patch []any

// ToImageUpdateMap implements images.UpdateOptsBuilder.
func (p patch) ToImageUpdateMap() ([]any, error) { return p, nil }

var escape = strings.NewReplacer("~", "~0", "/", "~1")

func (p *patch) set(op, name string, value any) {
	*p = append(*p, map[string]any{"op": op, "path": "/" + escape.Replace(name), "value": value})
}

func (p *patch) remove(name string) {
	*p = append(*p, map[string]any{"op": "remove", "path": "/" + escape.Replace(name)})
}

// propertyChanges gives what sets and removes properties, and names no other one.
func propertyChanges(have, set map[string]string, remove func(name string) bool) (patch, error) {
	var p patch
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if err := checkProperty(name); err != nil {
			return nil, err
		}
		if old, there := have[name]; !there || old != set[name] {
			p.set("add", name, set[name]) // in place of another value, too
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, stays := set[name]; !stays && remove != nil && remove(name) {
			p.remove(name)
		}
	}
	return p, nil
}

// difference gives what makes have into want, so far as a client may say it.
func difference(have, want compute.Image) (patch, error) {
	have, want = sorted(have), sorted(want)
	var p patch
	for _, c := range []struct {
		name      string
		have, now any
	}{
		{"name", have.Name, want.Name},
		{"visibility", have.Visibility, want.Visibility},
		{"protected", have.Protected, want.Protected},
		{"min_disk", have.MinDiskGB, want.MinDiskGB},
		{"min_ram", have.MinRAMMB, want.MinRAMMB},
		{"disk_format", have.DiskFormat, want.DiskFormat},
		{"container_format", have.ContainerFormat, want.ContainerFormat},
	} {
		if c.have != c.now {
			p.set("replace", c.name, c.now)
		}
	}
	if !slices.Equal(have.Tags, want.Tags) {
		p.set("replace", "tags", append([]string{}, want.Tags...))
	}
	for name, value := range want.Properties {
		if err := checkProperty(name); err != nil {
			return nil, err
		}
		old, there := have.Properties[name]
		if !there {
			p.set("add", name, value)
		} else if old != value {
			p.set("replace", name, value)
		}
	}
	for name := range have.Properties {
		if _, stays := want.Properties[name]; !stays {
			p.remove(name)
		}
	}
	return p, nil
}
