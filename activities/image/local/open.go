package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"

	"strongroom/activities/image"
	"strongroom/compute"
)

// Open implements image.Store.
func (l *Library) Open(_ context.Context, cred compute.Credential, id compute.ImageID) (io.ReadCloser, error) {
	img, file, err := l.open(cred, id)
	if err != nil {
		return nil, err
	}
	return &checked{file: file, digest: sha256.New(), img: img}, nil
}

// OpenUnchecked implements image.Library.
func (l *Library) OpenUnchecked(_ context.Context, cred compute.Credential, id compute.ImageID) (io.ReadCloser, error) {
	_, file, err := l.open(cred, id)
	if err != nil {
		return nil, err
	}
	return file, nil
}

func (l *Library) open(cred compute.Credential, id compute.ImageID) (compute.Image, *os.File, error) {
	img, err := l.visible(cred, id)
	if err != nil {
		return img, nil, err
	}
	if img.Status != image.StatusActive {
		return img, nil, compute.Errorf(compute.Conflict, "image %s has no data yet", id)
	}
	file, err := os.Open(l.files.File(dataFile(img)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := l.visible(cred, id); err != nil {
			return img, nil, err // deleted between the two looks
		}
		return img, nil, compute.Errorf(compute.Corrupt, "the data of image %s is missing", id)
	case err != nil:
		return img, nil, compute.Errorf(compute.Unavailable, "open the data of image %s: %w", id, err)
	}
	return img, file, nil
}

// checked is an image's data; its last Read says whether it was whole. The file
// is not embedded: its WriteTo would let io.Copy pass by the check.
type checked struct {
	file   *os.File
	digest hash.Hash
	img    compute.Image
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.file.Read(p)
	c.digest.Write(p[:n])
	switch {
	case errors.Is(err, io.EOF) && hex.EncodeToString(c.digest.Sum(nil)) != c.img.SHA256:
		return n, compute.Errorf(compute.Corrupt, "the data of image %s does not match its sha256", c.img.ID)
	case err != nil && !errors.Is(err, io.EOF):
		return n, compute.Errorf(compute.Unavailable, "read the data of image %s: %w", c.img.ID, err)
	}
	return n, err
}

func (c *checked) Close() error { return c.file.Close() }
