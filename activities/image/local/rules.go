package local

import (
	"slices"

	"strongroom/activities/image"
	"strongroom/compute"
)

var (
	diskFormats      = []string{"", "raw", "qcow2", "luks"}
	containerFormats = []string{"", "bare"}
	visibilities     = []string{image.Public, image.Community, image.Shared, image.Private}
)

func owns(cred compute.Credential, img compute.Image) bool {
	return cred.ProjectID != "" && cred.ProjectID == img.Owner
}

func mayRead(cred compute.Credential, img compute.Image) bool {
	return owns(cred, img) || img.Visibility == image.Public || img.Visibility == image.Community
}

func notFound(id compute.ImageID) error {
	return compute.Errorf(compute.NotFound, "no image found with id %s", id)
}

// check refuses what no image may say of itself.
func check(img compute.Image) error {
	for _, c := range []struct {
		what, value string
		allowed     []string
	}{
		{"disk format", img.DiskFormat, diskFormats},
		{"container format", img.ContainerFormat, containerFormats},
		{"visibility", img.Visibility, visibilities},
	} {
		if !slices.Contains(c.allowed, c.value) {
			return compute.Errorf(compute.Invalid, "invalid %s %q: one of %q is known", c.what, c.value, slices.DeleteFunc(slices.Clone(c.allowed), func(s string) bool { return s == "" }))
		}
	}
	if img.MinDiskGB < 0 || img.MinRAMMB < 0 {
		return compute.Errorf(compute.Invalid, "min_disk and min_ram cannot be negative")
	}
	return nil
}
