package disk

import (
	"context"
	"errors"
	"os"
	"strings"

	"strongroom/activities/imagefile"
	"strongroom/compute"
)

// inspect refuses an image that would make QEMU open other files of the host or cost it
// too much, or that it cannot use.
func (a *Activities) inspect(ctx context.Context, path string, img compute.Image) error {
	format, err := img.BackingFormat()
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return failed(ctx, err, "image %s", img.ID)
	}
	defer file.Close()
	i, err := a.look(ctx, file, format)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case compute.Is(err, compute.Corrupt):
		return compute.Errorf(compute.Corrupt, "image %s cannot be used: %w", img.ID, err)
	case errors.Is(err, imagefile.ErrCost):
		return compute.Errorf(compute.Corrupt, "image %s costs too much to check: %w", img.ID, err)
	case exitCode(err) > 0:
		return compute.Errorf(compute.Corrupt, "image %s is no readable %s: %w", img.ID, format, err)
	default: // qemu-img did not run, or was killed
		return failed(ctx, err, "check of image %s", img.ID)
	}
	var wrong []string
	if i.BackingFilename != "" {
		wrong = append(wrong, "names a backing file")
	}
	if i.FormatSpecific.Data.DataFile != "" {
		wrong = append(wrong, "names a data file")
	}
	if i.FormatSpecific.Data.Corrupt {
		wrong = append(wrong, "is marked corrupt")
	}
	switch {
	case i.Encrypted && !img.IsEncrypted():
		wrong = append(wrong, "is encrypted but its record names no key")
	case !i.Encrypted && img.IsEncrypted():
		wrong = append(wrong, "is not encrypted but its record names a key")
	case i.Encrypted && i.usedOptions()["format"] != "luks":
		wrong = append(wrong, "is encrypted in another way than LUKS")
	case i.VirtualSize > imagefile.MostBytes:
		wrong = append(wrong, "is larger than any host takes")
	}
	if len(wrong) > 0 {
		return compute.Errorf(compute.Corrupt, "image %s %s", img.ID, strings.Join(wrong, " and "))
	}
	return nil
}
