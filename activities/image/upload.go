package image

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"io"
	"os"
	"time"

	"go.temporal.io/sdk/activity"

	"strongroom/compute"
	"strongroom/durable"
)

// Upload runs on the host that has the data, on its bulk queue.
var Upload = durable.HostActivity[UploadInput, UploadResult]{Name: "image.Upload", Bulk: true,
	Summary: func(in UploadInput) string { return "upload image " + in.Image.String() }}

// UploadInput asks that an exported file becomes the data of a queued image.
type UploadInput struct {
	Credential compute.Credential `json:"credential"`
	Image      compute.ImageID    `json:"image"`
	File       string             `json:"file"` // compute.Export's
}

// UploadResult is what the image store says of the data.
type UploadResult struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256,omitempty"` // hex; one of the two, as the image store keeps it
	SHA512 string `json:"sha512,omitempty"`
}

// Progress is the heartbeat of an upload.
type Progress = compute.Progress

const progressEvery = 3 * time.Second

// Files are the copies of disks that a host made.
type Files interface {
	// OpenExport opens one by compute.Export.File. NotFound: it is not there;
	// Conflict: it may not be whole any more, and must be made again.
	OpenExport(file string) (*os.File, error)
}

// Uploads is what an upload needs of a Library.
type Uploads interface {
	Get(ctx context.Context, cred compute.Credential, id compute.ImageID) (compute.Image, error)
	Upload(ctx context.Context, cred compute.Credential, id compute.ImageID, data io.Reader) error
}

// HostActivities are what workflows call of the image store on a host, where
// the data is.
type HostActivities struct {
	Library Uploads
	Files   Files
}

// Register registers the activities.
func (a *HostActivities) Register(r durable.Registry) { Upload.Register(r, a.Upload) }

// Upload is the activity image.Upload. A broken upload leaves the image queued
// and the next one begins again. An image that has exactly this data is a success:
// the answer to an attempt before got lost.
//
// One that is cancelled when the image store has it all still succeeds: everybody sees
// the image by then.
//
// NotFound: no such image or file; Conflict: the image has other data, or the
// file must be made again; otherwise as Library.Upload.
func (a *HostActivities) Upload(ctx context.Context, in UploadInput) (UploadResult, error) {
	file, err := a.Files.OpenExport(in.File)
	if err != nil {
		return UploadResult{}, err
	}
	defer file.Close()
	img, err := a.Library.Get(ctx, in.Credential, in.Image)
	if err != nil {
		return UploadResult{}, err
	}
	taken := img.Status == StatusActive
	if !taken {
		data, err := watch(ctx, "upload", file)
		if err != nil {
			return UploadResult{}, err
		}
		err = a.Library.Upload(ctx, in.Credential, in.Image, data)
		if taken = compute.Is(err, compute.Conflict); err != nil && !taken { // another attempt may have been faster
			return UploadResult{}, err
		}
		conflict := err
		if err == nil {
			ctx = context.WithoutCancel(ctx)
		}
		if img, err = a.Library.Get(ctx, in.Credential, in.Image); err != nil {
			return UploadResult{}, err
		}
		if img.Status != StatusActive && taken {
			return UploadResult{}, conflict
		}
	}
	if taken {
		err = compare(context.WithoutCancel(ctx), img, file)
	}
	return UploadResult{Bytes: img.SizeBytes, SHA256: img.SHA256, SHA512: img.SHA512}, err
}

// compare says Conflict unless the image's data is the file's.
func compare(ctx context.Context, img compute.Image, file *os.File) error {
	other := compute.Errorf(compute.Conflict, "image %s has other data already", img.ID)
	sum, want := sha256.New(), img.SHA256
	if want == "" {
		sum, want = sha512.New(), img.SHA512
	}
	data, err := watch(ctx, "compare", file)
	if err != nil {
		return err
	}
	if data.Total != img.SizeBytes || want == "" {
		return other
	}
	if _, err := io.Copy(sum, data); err != nil {
		return compute.Errorf(compute.Unavailable, "image %s: read the file for it: %w", img.ID, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != want {
		return other
	}
	return nil
}

// watched is a file that is read from its beginning, with a heartbeat now and
// then. It ends with its context.
type watched struct {
	Progress
	ctx  context.Context
	from io.Reader
	last time.Time
}

func watch(ctx context.Context, phase string, file *os.File) (*watched, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "look at the file of an image: %w", err)
	}
	w := &watched{ctx: ctx, from: io.NewSectionReader(file, 0, info.Size()), Progress: Progress{Phase: phase, Total: info.Size()}}
	return w, nil
}

func (w *watched) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := w.from.Read(p)
	w.Done += int64(n)
	if activity.IsActivity(w.ctx) && time.Since(w.last) >= progressEvery {
		w.last = time.Now()
		activity.RecordHeartbeat(w.ctx, w.Progress)
	}
	return n, err
}
