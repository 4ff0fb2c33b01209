package image

import (
	"maps"
	"slices"

	"github.com/google/uuid"

	"strongroom/compute"
)

var (
	diskFormats      = []string{"", "raw", "qcow2", "luks"}
	containerFormats = []string{"", "bare"}
	visibilities     = []string{Public, Community, Shared, Private}
)

// Owns reports whether the credential may change the image.
func Owns(cred compute.Credential, img compute.Image) bool {
	return cred.ProjectID != "" && cred.ProjectID == img.Owner
}

// MayRead reports whether the credential may see an image that has no members.
func MayRead(cred compute.Credential, img compute.Image) bool {
	return Owns(cred, img) || img.Visibility == Public || img.Visibility == Community
}

// Missing is the answer to who asks for an image that is not there for it.
func Missing(id compute.ImageID) error {
	return compute.Errorf(compute.NotFound, "no image found with id %s", id)
}

// Check refuses what no image may say of itself, with Invalid.
func Check(img compute.Image) error {
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

// CheckChange is Check of what an Update changes: a store may have images of formats that nothing here reads.
func CheckChange(have, want compute.Image) error {
	if want.DiskFormat == have.DiskFormat {
		want.DiskFormat = ""
	}
	if want.ContainerFormat == have.ContainerFormat {
		want.ContainerFormat = ""
	}
	return Check(want)
}

// Asked gives the record that a Create asks for, with nothing in it that only
// an upload can know.
func Asked(cred compute.Credential, img compute.Image) (compute.Image, error) {
	if cred.ProjectID == "" {
		return img, compute.Errorf(compute.Forbidden, "an image is made with a credential of the project that will own it")
	}
	if img.Owner != "" && img.Owner != cred.ProjectID {
		return img, compute.Errorf(compute.Forbidden, "an image cannot be made for another project")
	}
	if img.ID.UUID == uuid.Nil {
		img.ID.UUID = uuid.New()
	}
	if img.Visibility == "" {
		img.Visibility = Shared
	}
	img.Owner, img.Status = cred.ProjectID, StatusQueued
	img.SizeBytes, img.VirtualBytes, img.SHA256 = 0, 0, ""
	return img, Check(img)
}

// Same reports whether a record is what a repeated Create asks for.
func Same(have, want compute.Image) bool {
	return have.Name == want.Name && have.Owner == want.Owner && have.Visibility == want.Visibility &&
		have.DiskFormat == want.DiskFormat && have.ContainerFormat == want.ContainerFormat &&
		have.MinDiskGB == want.MinDiskGB && have.MinRAMMB == want.MinRAMMB && have.Protected == want.Protected &&
		slices.Equal(have.Tags, want.Tags) && maps.Equal(have.Properties, want.Properties)
}
