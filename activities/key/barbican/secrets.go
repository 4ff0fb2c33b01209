package barbican

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"strongroom/activities/openstack"
	"strongroom/compute"
)

// entry is a secret in a list.
type entry struct {
	id      uuid.UUID
	name    string
	created time.Time
	filled  bool // it has its payload
	ours    bool // strongroom made it
}

func entriesOf(page pagination.Page) ([]entry, error) {
	all, err := secrets.ExtractSecrets(page)
	if err != nil {
		return nil, openstack.Error(err, "read the list of secrets")
	}
	entries := make([]entry, len(all))
	for i, s := range all {
		id, err := idOf(s)
		if err != nil {
			return nil, err
		}
		entries[i] = entry{id: id, name: s.Name, created: s.Created, filled: len(s.ContentTypes) > 0, ours: s.Mode == Mode}
	}
	return entries, nil
}

// named gives our secrets of a name, the one to keep first: one with a payload,
// then the oldest. Barbican reads the filters as patterns, so what comes is looked at
// again.
func named(ctx context.Context, client *gophercloud.ServiceClient, name string) ([]entry, error) {
	var entries []entry
	err := secrets.List(client, secrets.ListOpts{Name: name, Mode: Mode, Limit: pageSize}).EachPage(ctx,
		func(_ context.Context, page pagination.Page) (bool, error) {
			read, err := entriesOf(page)
			entries = append(entries, read...)
			return true, err
		})
	entries = slices.DeleteFunc(entries, func(e entry) bool { return e.name != name || !e.ours })
	slices.SortFunc(entries, func(a, b entry) int {
		if a.filled != b.filled {
			if a.filled {
				return -1
			}
			return 1
		}
		return cmp.Or(a.created.Compare(b.created), slices.Compare(a.id[:], b.id[:]))
	})
	return entries, openstack.Error(err, "list secrets")
}

// idOf reads the id, which is the end of the secret's address.
func idOf(s secrets.Secret) (uuid.UUID, error) {
	id, err := uuid.Parse(path.Base(s.SecretRef))
	if err != nil {
		return id, compute.Errorf(compute.Corrupt, "the key manager gave a secret whose address ends in no id")
	}
	return id, nil
}

// readAll reads a payload into one buffer, so that no copy of it stays behind.
func readAll(r io.Reader) ([]byte, error) {
	buffer := make([]byte, maxPayload+1)
	n, err := io.ReadFull(r, buffer)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	if err != nil {
		clear(buffer)
		return nil, err
	}
	return buffer[:n], nil
}
