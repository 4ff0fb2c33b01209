package glance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"

	"strongroom/activities/image"
	"strongroom/activities/imagefile"
	"strongroom/activities/openstack"
	"strongroom/compute"
)

const (
	// settle is how long Glance may take to see that an upload is over, and pause
	// how often it is asked.
	settle = 30 * time.Second
	pause  = 100 * time.Millisecond
)

// digests are the algorithms in which an image's os_hash_value is understood.
var digests = map[string]func() hash.Hash{"sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New}

// Upload implements image.Library. The data goes to Glance as it comes; its head
// is looked at before the first byte does, and its digest afterwards. When the
// connection breaks Glance puts the image back to queued, which is waited for.
func (l *Library) Upload(ctx context.Context, cred compute.Credential, id compute.ImageID, data io.Reader) error {
	client, err := l.client(ctx, cred)
	if err != nil {
		return err
	}
	img, err := own(ctx, client, cred, id)
	if err != nil {
		return err
	}
	if img, err = settled(ctx, client, cred, img); err != nil {
		return err
	}
	switch {
	case img.Status != image.StatusQueued:
		return compute.Errorf(compute.Conflict, "image %s has data already", id)
	case img.DiskFormat == "" || img.ContainerFormat == "":
		return compute.Errorf(compute.Conflict, "image %s needs disk_format and container_format before its data", id)
	}
	body, err := begin(ctx, img.Image, data)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("upload image %s", id)
	err = openstack.Error(imagedata.Upload(ctx, client, id.String(), body).Err, what)
	body.end()
	if body.broken != nil {
		err = compute.Errorf(compute.Unavailable, "the upload of image %s broke off: %w", id, body.broken)
	}
	return outcome(ctx, client, cred, img, body, err)
}

// settled waits until no upload of the image is under way, and reads the image again.
func settled(ctx context.Context, client *gophercloud.ServiceClient, cred compute.Credential, img record) (record, error) {
	for deadline := time.Now().Add(settle); img.Status == "saving"; {
		if time.Now().After(deadline) {
			return img, compute.Errorf(compute.Unavailable, "image %s is being uploaded", img.ID)
		}
		select {
		case <-ctx.Done():
			return img, openstack.Error(ctx.Err(), fmt.Sprintf("wait for an upload of image %s", img.ID))
		case <-time.After(pause):
		}
		var err error
		if img, err = own(ctx, client, cred, img.ID); err != nil {
			return img, err
		}
	}
	return img, nil
}

// outcome says how the upload went. The world counts: an answer may be lost, and
// Glance may still be writing when the client has gone, or begin only then. Who meets
// such an upload is refused, and may try again when it broke off.
func outcome(ctx context.Context, client *gophercloud.ServiceClient, cred compute.Credential, img record, body *body, failed error) error {
	met := compute.Is(failed, compute.Conflict)
	if failed != nil && !met && !compute.Is(failed, compute.Unavailable) && !compute.Is(failed, compute.NotFound) {
		return failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settle+10*time.Second)
	defer cancel()
	now, err := own(ctx, client, cred, img.ID)
	if compute.Is(failed, compute.NotFound) {
		if err != nil {
			return err
		}
		// Glance says so, too, to the slower of two uploads that began at once. It is nothing else, for the image was read
		// before: who may see it and not upload it is told 403.
		failed, met = compute.Errorf(compute.Conflict, "image %s was given other data meanwhile", img.ID), true
	}
	if err == nil {
		now, err = settled(ctx, client, cred, now)
	}
	switch {
	case err != nil:
		return errors.Join(err, failed)
	case met && now.Status == image.StatusQueued:
		return compute.Errorf(compute.Unavailable, "another upload of image %s broke off: %w", img.ID, failed)
	case now.Status != image.StatusActive && failed != nil:
		return failed
	case now.Status != image.StatusActive:
		return compute.Errorf(compute.Unavailable, "image %s took its data and is %s", img.ID, now.Status)
	case failed != nil && (body.broken != nil || !body.whole):
		return compute.Errorf(compute.Conflict, "image %s was given other data meanwhile", img.ID)
	case !body.is(now):
		if failed != nil {
			return compute.Errorf(compute.Conflict, "image %s was given other data meanwhile", img.ID)
		}
		return compute.Errorf(compute.Corrupt, "the data of image %s was changed on its way to the image store", img.ID)
	}
	return nil
}

// body is an image's data on its way to Glance.
type body struct {
	ctx    context.Context
	mu     sync.Mutex // the transport may go on reading after it gave the answer
	data   io.Reader
	ended  bool
	broken error // of data itself
	whole  bool  // data was read to its end
	size   int64
	sums   map[string]hash.Hash
}

// begin reads the head of the data and refuses what must not become an image.
func begin(ctx context.Context, img compute.Image, data io.Reader) (*body, error) {
	head := make([]byte, imagefile.HeadBytes)
	n, err := io.ReadFull(data, head)
	head = head[:n]
	switch {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, compute.Errorf(compute.Unavailable, "the upload of image %s broke off: %w", img.ID, err)
	case n == 0:
		return nil, compute.Errorf(compute.Invalid, "image %s has no bytes", img.ID)
	}
	if err := image.CheckHead(img, head); err != nil {
		return nil, err
	}
	b := &body{ctx: ctx, data: io.MultiReader(bytes.NewReader(head), data), sums: map[string]hash.Hash{}}
	for name, algorithm := range digests {
		b.sums[name] = algorithm()
	}
	return b, nil
}

var errEnded = errors.New("the upload is over")

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, errEnded
	}
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.data.Read(p)
	for _, sum := range b.sums {
		sum.Write(p[:n])
	}
	b.size += int64(n)
	switch {
	case errors.Is(err, io.EOF):
		b.whole = true
	case err != nil:
		b.broken = err
	}
	return n, err
}

// Seek refuses to send again what was sent: a client that has logged in again would
// go on in the middle, and Glance would take the rest for the whole.
func (b *body) Seek(int64, int) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.size > 0 {
		return 0, errEnded
	}
	return 0, nil
}

// end lets nobody read from the data any more.
func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}

// is reports whether the image has exactly the data that was sent.
func (b *body) is(r record) bool {
	sum, known := b.sums[r.algorithm]
	return r.SizeBytes == b.size && (!known || hex.EncodeToString(sum.Sum(nil)) == r.digest)
}
