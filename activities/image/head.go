package image

import (
	"strongroom/activities/imagefile"
	"strongroom/compute"
)

// CheckHead looks at the data before any program does: a qcow2 may name a
// backing file or a data file, and whoever opens it would read that file of the
// host for its owner. head is the first imagefile.HeadBytes of the data, or all of it.
// Invalid: the data is not what disk_format says, refers to other files, or would cost
// too much to be read.
func CheckHead(img compute.Image, head []byte) error {
	isQcow2, isLUKS := imagefile.IsQcow2(head), imagefile.IsLUKS(head)
	switch {
	case img.DiskFormat == "raw" && isQcow2:
		return compute.Errorf(compute.Invalid, "image %s says raw and its data is qcow2", img.ID)
	case img.DiskFormat == "qcow2" && !isQcow2, img.DiskFormat == "luks" && !isLUKS:
		return compute.Errorf(compute.Invalid, "the data of image %s is not %s", img.ID, img.DiskFormat)
	}
	return Refused(img, imagefile.CheckHead(img.DiskFormat, head))
}

// Refused is the refusal of an image's data for what a check of it found; nil: nothing.
func Refused(img compute.Image, found error) error {
	if found == nil {
		return nil
	}
	return compute.Errorf(compute.Invalid, "the data of image %s cannot be taken: %w", img.ID, found)
}
