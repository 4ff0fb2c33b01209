package local

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"

	"strongroom/activities/image"
	"strongroom/activities/imagefile"
	"strongroom/compute"
)

// inspector reads what image data says of itself, in a bounded child.
type inspector struct{ program string }

// virtualSize gives the size in bytes of the disk in an image's data, or Invalid
// if the data is not what the image's disk_format says or refers to other files.
func (i inspector) virtualSize(ctx context.Context, img compute.Image, file *os.File, size int64) (int64, error) {
	if size == 0 {
		return 0, compute.Errorf(compute.Invalid, "image %s has no bytes", img.ID)
	}
	head := make([]byte, min(imagefile.HeadBytes, size))
	if _, err := file.ReadAt(head, 0); err != nil {
		return 0, compute.Errorf(compute.Unavailable, "read back the data of image %s: %w", img.ID, err)
	}
	if err := image.CheckHead(img, head); err != nil {
		return 0, err
	}
	if err := image.Refused(img, imagefile.Check(img.DiskFormat, file, size)); err != nil {
		return 0, err
	}
	if img.DiskFormat == "raw" {
		return size, nil
	}
	return i.ask(ctx, img, file)
}

// info is the part of qemu-img's answer that counts.
type info struct {
	Format      string `json:"format"`
	VirtualSize int64  `json:"virtual-size"`
	Backing     string `json:"backing-filename"`
	Specific    struct {
		Data struct {
			DataFile string `json:"data-file"`
		} `json:"data"`
	} `json:"format-specific"`
}

func (i inspector) ask(ctx context.Context, img compute.Image, file *os.File) (int64, error) {
	out, err := i.run(ctx, file, img.DiskFormat)
	if err != nil {
		var ended *exec.ExitError
		if ctx.Err() == nil && !errors.Is(err, imagefile.ErrTime) && (errors.As(err, &ended) || errors.Is(err, imagefile.ErrOutput) || errors.Is(err, imagefile.ErrCost)) {
			return 0, compute.Errorf(compute.Invalid, "the data of image %s cannot be read as %s", img.ID, img.DiskFormat)
		}
		return 0, compute.Errorf(compute.Unavailable, "inspect image %s: %w", img.ID, errors.Join(err, ctx.Err()))
	}
	var said info
	if json.Unmarshal(out, &said) != nil || said.Format != img.DiskFormat || said.VirtualSize <= 0 {
		return 0, compute.Errorf(compute.Invalid, "the data of image %s cannot be read as %s", img.ID, img.DiskFormat)
	}
	if said.Backing != "" || said.Specific.Data.DataFile != "" {
		return 0, image.Refused(img, imagefile.ErrElsewhere)
	}
	return said.VirtualSize, nil
}

// run gives what qemu-img info prints. The format is given, never guessed, and
// info opens no file beside the one it is given. Others cannot come to the file,
// whatever its mode: the folder is closed to them.
func (i inspector) run(ctx context.Context, file *os.File, format string) ([]byte, error) {
	toRead, err := os.Open(file.Name()) // and not to write
	if err != nil {
		return nil, err
	}
	defer func() { _ = toRead.Close() }()
	if err := file.Chmod(0o644); err != nil {
		return nil, err
	}
	cmd, err := imagefile.Command(ctx, imagefile.Limits{}, toRead, i.program, "info", "-U", "--output=json", "-f", format, "/dev/fd/3")
	if err != nil {
		return nil, err
	}
	defer cmd.Close()
	cmd.ExtraFiles = []*os.File{toRead}
	var out imagefile.Output
	cmd.Stdout = &out
	err = cmd.Failure(ctx, cmd.Run(), "")
	return out.Bytes(), errors.Join(err, file.Chmod(0o600))
}
