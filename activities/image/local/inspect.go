package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"strongroom/activities/image"
	"strongroom/compute"
)

// What one look at an image may cost: a hostile image can make qemu-img eat
// memory and time without end.
const (
	inspectTimeout = 60 * time.Second
	inspectMemory  = "--as=2147483648" // bytes of address space
	inspectCPU     = "--cpu=30"        // seconds
	inspectOutput  = 1 << 20           // bytes of JSON
)

// inspector reads what image data says of itself, in a bounded child.
type inspector struct{ program string }

// virtualSize gives the size in bytes of the disk in an image's data, or Invalid
// if the data is not what the image's disk_format says or refers to other files.
func (i inspector) virtualSize(ctx context.Context, img compute.Image, path string, size int64) (int64, error) {
	if size == 0 {
		return 0, compute.Errorf(compute.Invalid, "image %s has no bytes", img.ID)
	}
	head, err := readHead(path)
	if err != nil {
		return 0, compute.Errorf(compute.Unavailable, "read back the data of image %s: %w", img.ID, err)
	}
	if err := image.CheckHead(img, head); err != nil {
		return 0, err
	}
	if img.DiskFormat == "raw" {
		return size, nil
	}
	return i.ask(ctx, img, path)
}

func readHead(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	head := make([]byte, image.HeadBytes)
	n, err := io.ReadFull(file, head)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return head[:n], err
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

func (i inspector) ask(ctx context.Context, img compute.Image, path string) (int64, error) {
	out, err := i.run(ctx, path, img.DiskFormat)
	if err != nil {
		var ended *exec.ExitError
		if ctx.Err() == nil && (errors.As(err, &ended) || errors.Is(err, errTooMuch)) {
			return 0, compute.Errorf(compute.Invalid, "the data of image %s cannot be read as %s", img.ID, img.DiskFormat)
		}
		return 0, compute.Errorf(compute.Unavailable, "inspect image %s: %w", img.ID, errors.Join(err, ctx.Err()))
	}
	var said info
	if json.Unmarshal(out, &said) != nil || said.Format != img.DiskFormat || said.VirtualSize <= 0 {
		return 0, compute.Errorf(compute.Invalid, "the data of image %s cannot be read as %s", img.ID, img.DiskFormat)
	}
	if said.Backing != "" || said.Specific.Data.DataFile != "" {
		return 0, image.RefersElsewhere(img)
	}
	return said.VirtualSize, nil
}

// run gives what qemu-img info prints. The format is given, never guessed, and
// info opens no file beside the one it is given.
func (i inspector) run(ctx context.Context, path, format string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	program, err := exec.LookPath(i.program) // prlimit would hide that there is none
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "prlimit", inspectMemory, inspectCPU, "--core=0", "--",
		program, "info", "--output=json", "-f", format, path)
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var out bounded
	cmd.Stdout = &out
	err = cmd.Run()
	return out.Bytes(), err
}

var errTooMuch = errors.New("the program printed too much")

// bounded takes a child's output up to inspectOutput.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > inspectOutput {
		return 0, errTooMuch
	}
	return b.Buffer.Write(p)
}
