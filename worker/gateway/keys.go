package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync/atomic"

	"go.temporal.io/sdk/activity"

	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/worker/pki"
)

// HostKeys reads passphrases through a gateway.
type HostKeys struct {
	*Client
	host compute.HostID
	keys atomic.Pointer[[]pki.Keys] // the newest first
}

// NewHostKeys is what reads passphrases for a host that has these keys.
func NewHostKeys(c *Client, host compute.HostID, keys pki.Keys) *HostKeys {
	k := &HostKeys{Client: c, host: host}
	k.keys.Store(&[]pki.Keys{keys})
	return k
}

// Renewed takes newer keys. Those before them still open what is on its way.
func (k *HostKeys) Renewed(keys pki.Keys) {
	k.keys.Store(&[]pki.Keys{keys, (*k.keys.Load())[0]})
	k.reconnect() // with the certificate of the keys
}

func (k *HostKeys) open(id compute.SecretID, sealed []byte) (*secret.Passphrase, error) {
	return k.Open(sealContext(k.host, id), id, sealed)
}

// Open opens a secret that was sealed to this host's key, bound to a text.
func (k *HostKeys) Open(bound string, id compute.SecretID, sealed []byte) (*secret.Passphrase, error) {
	for _, keys := range *k.keys.Load() {
		if value, err := keys.Open(bound, sealed); err == nil {
			return secret.New(value), nil
		}
	}
	return nil, compute.Errorf(compute.Unavailable, "secret %s was not sealed to a key of this host", id)
}

// Passphrase reads a secret for the operation whose activity calls it. Forbidden: the
// server uses no such secret, or no operation on it acts with the credential any more;
// otherwise as key.Manager.
func (k *HostKeys) Passphrase(ctx context.Context, cred compute.Credential, id compute.SecretID) (*secret.Passphrase, error) {
	p, err := purposeOf(ctx, cred)
	if err != nil {
		return nil, err
	}
	var answer passphraseAnswer
	if err := k.ask(ctx, http.MethodPost, pathPassphrase, passphraseRequest{p, id}, &answer); err != nil {
		return nil, err
	}
	return k.open(id, answer.Sealed)
}

// purposeOf says for which server or volume the activity works.
func purposeOf(ctx context.Context, cred compute.Credential) (purpose, error) {
	if activity.IsActivity(ctx) {
		workflow := activity.GetInfo(ctx).WorkflowExecution.ID
		if id, ok := durable.ServerOf(workflow); ok {
			return purpose{Server: id, Credential: cred}, nil
		}
		if id, ok := durable.VolumeOf(workflow); ok {
			return purpose{Volume: id, Credential: cred}, nil
		}
	}
	return purpose{}, compute.Errorf(compute.Forbidden, "credential %s: only an operation on a server, or on a volume, uses one on a host", cred.ID)
}

// HostImages reads and writes images through a gateway: image.Store, and what image.Upload
// needs beside it.
type HostImages struct{ *Client }

// Get implements image.Store.
func (i HostImages) Get(ctx context.Context, cred compute.Credential, id compute.ImageID) (out compute.Image, err error) {
	resp, err := i.stream(ctx, cred, http.MethodGet, pathImage(id), nil)
	if err != nil {
		return out, err
	}
	defer func() { _ = resp.Body.Close() }()
	err = decode(resp, &out)
	return out, err
}

// Open implements image.Store, but for the digest: who asks keeps the bytes, and compares
// what he has.
func (i HostImages) Open(ctx context.Context, cred compute.Credential, id compute.ImageID) (io.ReadCloser, error) {
	resp, err := i.stream(ctx, cred, http.MethodGet, pathImageFile(id), nil) //nolint:bodyclose // download has it
	if err != nil {
		return nil, err
	}
	return readAhead(&download{ReadCloser: resp.Body, resp: resp}), nil
}

// Upload is that of image.Library.
func (i HostImages) Upload(ctx context.Context, cred compute.Credential, id compute.ImageID, data io.Reader) error {
	resp, err := i.stream(ctx, cred, http.MethodPut, pathImageFile(id), io.NopCloser(data))
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (i HostImages) stream(ctx context.Context, cred compute.Credential, method, path string, body io.Reader) (*http.Response, error) {
	p, err := purposeOf(ctx, cred)
	if err != nil {
		return nil, err
	}
	return i.do(ctx, method, path, body, string(marshal(p)))
}

// download ends as the gateway's own reading of the image did.
type download struct {
	io.ReadCloser
	resp *http.Response
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err != io.EOF {
		return n, err
	}
	end := d.resp.Trailer.Get(trailerEnd)
	if end == endWhole {
		return n, io.EOF
	}
	var f failure
	if json.Unmarshal([]byte(end), &f) != nil {
		return n, io.ErrUnexpectedEOF
	}
	return n, f.err()
}
