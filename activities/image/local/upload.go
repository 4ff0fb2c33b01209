package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"strongroom/activities/folder"
	"strongroom/activities/image"
	"strongroom/compute"
)

// Upload implements image.Library. The data goes into a draft while the record
// stays queued; the lock is held only to make it the image's.
func (l *Library) Upload(ctx context.Context, cred compute.Credential, id compute.ImageID, data io.Reader) error {
	img, err := l.queued(cred, id)
	if err != nil {
		return err
	}
	draft, err := l.files.Draft()
	if err != nil {
		return compute.Errorf(compute.Unavailable, "begin the data of image %s: %w", id, err)
	}
	defer draft.Discard()
	size, sum, err := store(ctx, draft, data)
	if err != nil {
		return compute.Errorf(compute.Unavailable, "the upload of image %s broke off: %w", id, err)
	}
	virtual, err := l.look.virtualSize(ctx, img, draft.File, size)
	if err != nil {
		return err
	}
	return l.activate(ctx, cred, img, draft, func(img *compute.Image) {
		img.SizeBytes, img.VirtualBytes, img.SHA256 = size, virtual, sum
	})
}

func (l *Library) queued(cred compute.Credential, id compute.ImageID) (compute.Image, error) {
	img, err := l.own(cred, id)
	switch {
	case err != nil:
		return img, err
	case img.Status != image.StatusQueued:
		return img, compute.Errorf(compute.Conflict, "image %s has data already", id)
	case img.DiskFormat == "" || img.ContainerFormat == "":
		return img, compute.Errorf(compute.Conflict, "image %s needs disk_format and container_format before its data", id)
	}
	return img, nil
}

// store copies the data and gives its length and sha256 in hex.
func store(ctx context.Context, w io.Writer, data io.Reader) (int64, string, error) {
	digest := sha256.New()
	size, err := io.Copy(io.MultiWriter(w, digest), &steady{ctx: ctx, from: data})
	return size, hex.EncodeToString(digest.Sum(nil)), err
}

// steady ends reading with its context.
type steady struct {
	ctx  context.Context
	from io.Reader
}

func (s *steady) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.from.Read(p)
}

// activate makes the draft the image's data. The image may have been deleted,
// changed or filled by another upload since this one began.
func (l *Library) activate(ctx context.Context, cred compute.Credential, began compute.Image, draft *folder.Draft, fill func(*compute.Image)) error {
	unlock, err := l.files.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	img, err := l.queued(cred, began.ID)
	if err != nil {
		return err
	}
	if img.DiskFormat != began.DiskFormat {
		return compute.Errorf(compute.Conflict, "the disk_format of image %s changed during the upload", img.ID)
	}
	fill(&img)
	img.Status, img.UpdatedAt = image.StatusActive, l.stamp()
	if err := draft.Keep(dataFile(img)); err != nil {
		return compute.Errorf(compute.Unavailable, "store the data of image %s: %w", img.ID, err)
	}
	if err := l.files.write(img); err != nil {
		_ = l.files.Remove(dataFile(img)) // what stays is cleared at the next start
		return err
	}
	return nil
}
