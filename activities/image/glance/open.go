package glance

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"

	"strongroom/activities/image"
	"strongroom/activities/openstack"
	"strongroom/compute"
)

// Open implements image.Store. The digest that is checked is Glance's own,
// whatever its algorithm; an image without one cannot be checked and is Corrupt.
func (l *Library) Open(ctx context.Context, cred compute.Credential, id compute.ImageID) (io.ReadCloser, error) {
	img, stream, err := l.open(ctx, cred, id)
	if err != nil {
		return nil, err
	}
	return &checked{data: stream, sum: digests[img.algorithm](), img: img}, nil
}

// OpenUnchecked implements image.Library.
func (l *Library) OpenUnchecked(ctx context.Context, cred compute.Credential, id compute.ImageID) (io.ReadCloser, error) {
	_, stream, err := l.open(ctx, cred, id)
	return stream, err
}

func (l *Library) open(ctx context.Context, cred compute.Credential, id compute.ImageID) (record, io.ReadCloser, error) {
	client, err := l.client(ctx, cred)
	if err != nil {
		return record{}, nil, err
	}
	img, err := get(ctx, client, cred, id)
	if err != nil {
		return img, nil, err
	}
	if img.Status != image.StatusActive {
		return img, nil, compute.Errorf(compute.Conflict, "image %s has no data yet", id)
	}
	if digests[img.algorithm] == nil {
		return img, nil, compute.Errorf(compute.Corrupt, "the data of image %s cannot be checked: its digest is of the kind %q", id, img.algorithm)
	}
	data := imagedata.Download(ctx, client, id.String())
	if data.Err != nil {
		err := openstack.Error(data.Err, fmt.Sprintf("read the data of image %s", id))
		if compute.Is(err, compute.NotFound) {
			err = image.Missing(id)
		}
		return img, nil, err
	}
	stream, err := data.Extract()
	return img, stream, openstack.Error(err, fmt.Sprintf("read the data of image %s", id))
}

// checked is an image's data; its last Read says whether it was whole. The stream
// is not embedded: a WriteTo of its own would let io.Copy pass by the check.
type checked struct {
	data io.ReadCloser
	sum  hash.Hash
	img  record
	size int64
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.data.Read(p)
	c.sum.Write(p[:n])
	c.size += int64(n)
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF), c.size < c.img.SizeBytes:
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return n, compute.Errorf(compute.Unavailable, "the data of image %s broke off: %w", c.img.ID, err)
	case hex.EncodeToString(c.sum.Sum(nil)) != c.img.digest:
		return n, compute.Errorf(compute.Corrupt, "the data of image %s does not match its %s", c.img.ID, c.img.algorithm)
	}
	return n, io.EOF
}

func (c *checked) Close() error { return c.data.Close() }
