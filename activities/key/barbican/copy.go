package barbican

import (
	"bytes"
	"context"

	"strongroom/activities/key"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// Copy implements key.Manager. The source may be any secret that holds text and
// that its credential may read, also by an access list; the copy is one of ours.
func (m *Manager) Copy(ctx context.Context, in key.CopyInput) (compute.SecretID, error) {
	if err := in.Check(); err != nil {
		return compute.SecretID{}, err
	}
	source, err := m.Passphrase(ctx, in.FromCredential, in.From)
	if err != nil {
		return compute.SecretID{}, err
	}
	defer source.Wipe()
	client, err := m.client(ctx, in.Credential)
	if err != nil {
		return compute.SecretID{}, err
	}
	from, err := m.client(ctx, in.FromCredential)
	if err != nil {
		return compute.SecretID{}, err
	}
	c := creation{client: client, name: in.Name, value: func() (*secret.Passphrase, error) { return double(source) }}
	if c.readers, err = m.readersOf(ctx, from, in.FromCredential, in.From); err != nil {
		return compute.SecretID{}, err
	}
	id, err := c.make(ctx)
	if err != nil {
		return id, err
	}
	found, err := m.Passphrase(ctx, in.Credential, id)
	if compute.Is(err, compute.NotFound) { // it is the source that NotFound would speak of
		return id, compute.Errorf(compute.Unavailable, "secret %s was deleted as soon as it was made", id)
	}
	if err != nil {
		return id, err
	}
	defer found.Wipe()
	return id, in.CheckCopy(id, source, found)
}

func double(p *secret.Passphrase) (copied *secret.Passphrase, err error) {
	err = p.Use(func(value []byte) error { copied = secret.New(bytes.Clone(value)); return nil })
	return copied, err
}
