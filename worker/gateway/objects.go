package gateway

import (
	"context"
	"io"
	"net/http"

	"strongroom/activities/object"
	"strongroom/compute"
)

// HostObjects is the object store of a host: through a gateway it stores, and removes, what
// the operation made whose activity calls it, and reads that and what the server has. The
// host takes and checks the checksums.
func HostObjects(c *Client) *object.Segmented { return &object.Segmented{Blobs: hostBlobs{c}} }

type hostBlobs struct{ *Client }

// Put implements object.Blobs.
func (b hostBlobs) Put(ctx context.Context, cred compute.Credential, name string, data io.ReadSeeker) error {
	if _, err := data.Seek(0, io.SeekStart); err != nil {
		return compute.Errorf(compute.Unavailable, "read the data of object %s: %w", name, err)
	}
	resp, err := b.stream(ctx, http.MethodPut, pathObjects, blobRequest{purpose{Credential: cred}, name, ""}, io.NopCloser(data))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return decode(resp, nil) // to its end: the next segment goes over the same connection
}

// Size implements object.Blobs.
func (b hostBlobs) Size(ctx context.Context, cred compute.Credential, name string) (size int64, err error) {
	err = b.askFor(ctx, http.MethodGet, pathObjectSize, blobRequest{purpose{Credential: cred}, name, ""}, &size)
	return size, err
}

// Open implements object.Blobs.
func (b hostBlobs) Open(ctx context.Context, cred compute.Credential, name string) (io.ReadCloser, error) {
	resp, err := b.stream(ctx, http.MethodGet, pathObjects, blobRequest{purpose{Credential: cred}, name, ""}, nil) //nolint:bodyclose // download has it
	if err != nil {
		return nil, err
	}
	return readAhead(&download{ReadCloser: resp.Body, resp: resp}), nil
}

// Delete implements object.Blobs.
func (b hostBlobs) Delete(ctx context.Context, cred compute.Credential, name string) error {
	return b.askFor(ctx, http.MethodDelete, pathObjects, blobRequest{purpose{Credential: cred}, name, ""}, nil)
}

// List implements object.Blobs, for the segments of one object.
func (b hostBlobs) List(ctx context.Context, cred compute.Credential, prefix, after string, limit int) (names []string, err error) {
	err = b.askFor(ctx, http.MethodGet, pathObjectNames, blobRequest{purpose{Credential: cred}, prefix, after}, &names)
	return names[:min(limit, len(names))], err
}

// askFor makes a call whose answer is JSON; out may be nil.
func (b hostBlobs) askFor(ctx context.Context, method, path string, in blobRequest, out any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	resp, err := b.stream(ctx, method, path, in, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return decode(resp, out)
}

// stream makes a call for the operation whose activity calls it.
func (b hostBlobs) stream(ctx context.Context, method, path string, in blobRequest, body io.Reader) (*http.Response, error) {
	var err error
	if in.purpose, err = purposeOf(ctx, in.Credential); err != nil {
		return nil, err
	}
	return b.do(ctx, method, path, body, string(marshal(in)))
}
