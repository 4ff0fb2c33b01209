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

	"strongroom/activities/openstack"
	"strongroom/compute"
)

// pageSize is the most that Barbican lists at once.
const pageSize = 100

// entry is one of our secrets in a list.
type entry struct {
	id      uuid.UUID
	name    string
	created time.Time
	filled  bool // it has its payload
}

// list gives our secrets in the client's project. Barbican reads the filters as
// patterns, so what comes is looked at again.
func list(ctx context.Context, client *gophercloud.ServiceClient, options secrets.ListOpts) ([]entry, error) {
	options.Limit = pageSize
	pages, err := secrets.List(client, options).AllPages(ctx)
	if err != nil {
		return nil, openstack.Error(err, "list secrets")
	}
	all, err := secrets.ExtractSecrets(pages)
	if err != nil {
		return nil, openstack.Error(err, "read the list of secrets")
	}
	entries := make([]entry, 0, len(all))
	for _, s := range all {
		if s.Mode != Mode {
			continue
		}
		id, err := idOf(s)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{id: id, name: s.Name, created: s.Created, filled: len(s.ContentTypes) > 0})
	}
	return entries, nil
}

// named gives our secrets of a name, the one to keep first: one with a payload,
// then the oldest.
func named(ctx context.Context, client *gophercloud.ServiceClient, name string) ([]entry, error) {
	entries, err := list(ctx, client, secrets.ListOpts{Name: name})
	entries = slices.DeleteFunc(entries, func(e entry) bool { return e.name != name })
	slices.SortFunc(entries, func(a, b entry) int {
		if a.filled != b.filled {
			if a.filled {
				return -1
			}
			return 1
		}
		return cmp.Or(a.created.Compare(b.created), slices.Compare(a.id[:], b.id[:]))
	})
	return entries, err
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
