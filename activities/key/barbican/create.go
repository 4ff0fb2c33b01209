package barbican

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/acls"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"

	"strongroom/activities/key"
	"strongroom/activities/openstack"
	"strongroom/activities/secret"
	"strongroom/compute"
)

const (
	// rounds bounds how often a Create starts over because others interfere.
	rounds = 200
	// pause is the wait for another Create to fill its secret, patience how long
	// that may take before it counts as dead.
	pause    = 50 * time.Millisecond
	patience = 5 * time.Second
)

// Create implements key.Manager; the id is Barbican's choice.
//
// Barbican lets many secrets have one name, so that there is one is agreed on.
// Each Create makes an empty secret, a candidate, and looks again: one that is
// filled goes before all empty ones, then the oldest. Only its maker fills a
// candidate, and only while it is the first; whoever sees more than one deletes
// all but the first. A secret is given back only when a look after it was filled
// shows it alone: whoever comes later sees it filled and keeps it.
func (m *Manager) Create(ctx context.Context, in key.CreateInput) (compute.SecretID, error) {
	if err := in.Check(); err != nil {
		return compute.SecretID{}, err
	}
	client, err := m.client(ctx, in.Credential)
	if err != nil {
		return compute.SecretID{}, err
	}
	c := creation{client: client, name: in.Name, value: func() (*secret.Passphrase, error) { return secret.Generate(in.Bytes) }}
	switch {
	case in.Private:
		c.readers = only(nil, in.Credential.UserID)
	case in.Like != nil:
		// Of a secret that somebody deleted nothing is left that could be read by more people now.
		if c.readers, err = m.readersOf(ctx, client, in.Credential, *in.Like); present(err) != nil {
			return compute.SecretID{}, err
		}
	}
	return c.make(ctx)
}

type creation struct {
	client  *gophercloud.ServiceClient
	name    string
	value   func() (*secret.Passphrase, error)
	readers acls.SetOpts // nil: the project's
	own     uuid.UUID    // the candidate, Nil while there is none
	waiting uuid.UUID    // another's candidate that is waited for
	since   time.Time
}

func (c *creation) make(ctx context.Context) (compute.SecretID, error) {
	id, err := c.run(ctx)
	if err != nil {
		err = c.undo(ctx, err)
	}
	return compute.SecretID{UUID: id}, err
}

func (c *creation) run(ctx context.Context) (uuid.UUID, error) {
	for range rounds {
		entries, err := named(ctx, c.client, c.name)
		if err != nil {
			return uuid.Nil, err
		}
		done, err := c.step(ctx, entries)
		if err != nil {
			return uuid.Nil, err
		}
		if done {
			return entries[0].id, nil
		}
	}
	return uuid.Nil, compute.Errorf(compute.Unavailable, "secret %q is made and deleted by others all the time", c.name)
}

// step does the next thing, given a fresh look. It is done when the look shows one
// secret that is filled.
func (c *creation) step(ctx context.Context, entries []entry) (done bool, err error) {
	if len(entries) == 0 {
		return false, c.propose(ctx)
	}
	first := entries[0]
	if first.filled {
		if len(entries) == 1 {
			return true, nil
		}
		return false, c.removeOthers(ctx, entries)
	}
	if first.id == c.own {
		return false, c.fill(ctx)
	}
	if c.waiting != first.id {
		c.waiting, c.since = first.id, time.Now()
	}
	if time.Since(c.since) > patience { // whoever made it died; if not, it starts over
		return false, remove(ctx, c.client, first.id)
	}
	select {
	case <-ctx.Done():
		return false, openstack.Error(ctx.Err(), "wait for another to make the secret")
	case <-time.After(pause):
		return false, nil
	}
}

func (c *creation) removeOthers(ctx context.Context, entries []entry) error {
	for _, e := range entries[1:] {
		if err := remove(ctx, c.client, e.id); err != nil {
			return err
		}
	}
	return nil
}

// propose makes an empty secret.
func (c *creation) propose(ctx context.Context) error {
	made, err := secrets.Create(ctx, c.client, secrets.CreateOpts{
		Name: c.name, SecretType: secrets.PassphraseSecret, Mode: Mode,
	}).Extract()
	if err != nil {
		return openstack.Error(err, "create a secret")
	}
	c.own, err = idOf(*made)
	return err
}

// fill gives the own candidate its payload. That it is gone, or is filled because
// an answer got lost, shows at the next look. Who may read it is set first: nobody
// else ever can.
func (c *creation) fill(ctx context.Context) error {
	if c.readers != nil {
		err := openstack.Error(acls.SetSecretACL(ctx, c.client, c.own.String(), c.readers).Err, fmt.Sprintf("make secret %s private", c.own))
		if err != nil {
			return present(err)
		}
	}
	p, err := c.value()
	if err != nil {
		return compute.Errorf(compute.Unavailable, "make a passphrase: %w", err)
	}
	defer p.Wipe()
	err = p.Use(func(value []byte) error {
		response, err := c.client.Put(ctx, c.client.ServiceURL("secrets", c.own.String()), bytes.NewReader(value), nil, &gophercloud.RequestOpts{
			MoreHeaders: map[string]string{"Content-Type": "text/plain"}, OkCodes: []int{http.StatusNoContent},
		})
		if err == nil {
			err = response.Body.Close()
		}
		return openstack.Error(err, fmt.Sprintf("fill secret %s", c.own))
	})
	if compute.Is(err, compute.Conflict) {
		return nil
	}
	return present(err)
}

// undo takes the own candidate back, if it is still empty, and gives err. What
// stays is found by its name: the next Create or Delete clears it.
func (c *creation) undo(ctx context.Context, err error) error {
	if c.own == uuid.Nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if s, look := secrets.Get(ctx, c.client, c.own.String()).Extract(); look == nil && len(s.ContentTypes) == 0 {
		_ = remove(ctx, c.client, c.own)
	}
	return err
}
