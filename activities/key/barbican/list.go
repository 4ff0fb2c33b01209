package barbican

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"strongroom/activities/key"
	"strongroom/activities/openstack"
	"strongroom/compute"
)

// pageSize is the most that Barbican lists at once.
const pageSize = 100

// List implements key.Manager, the oldest first. Barbican shows a token its own project's
// secrets and nobody all of them: a credential without a project gets Forbidden.
func (m *Manager) List(ctx context.Context, cred compute.Credential, in key.ListInput) (key.ListResult, error) {
	client, err := m.client(ctx, cred)
	if err != nil {
		return key.ListResult{}, err
	}
	at, err := parsePosition(in.Marker)
	if err != nil {
		return key.ListResult{}, err
	}
	entries, next, err := at.read(ctx, client, in.Limit)
	if err != nil {
		return key.ListResult{}, err
	}
	out := key.ListResult{Next: next}
	for _, s := range entries {
		if s.ours {
			out.Items = append(out.Items, key.Item{ID: compute.SecretID{UUID: s.id}, Name: s.name, ProjectID: cred.ProjectID})
		}
	}
	return out, nil
}

// position is a place in the list of a project's secrets by the time of their making, to
// whose end new ones are added. Barbican counts from the first one: whoever went on at a
// count alone would pass by some when earlier ones were deleted meanwhile. So the secret
// before the place is read once more, and unless it is the last one that was given, or an
// older one, the place is looked for further in front.
type position struct {
	count   int       // of the secrets before the place
	created time.Time // of the youngest that was given
	last    uuid.UUID // the last one that was given
}

// parsePosition reads what String wrote.
func parsePosition(text string) (at position, err error) {
	if text == "" {
		return at, nil
	}
	var micros int64
	var last string
	if _, err = fmt.Sscanf(text, "%d/%d/%s", &at.count, &micros, &last); err == nil {
		at.created = time.UnixMicro(micros)
		at.last, err = uuid.Parse(last)
	}
	if err != nil || at.count < 1 {
		return at, compute.Errorf(compute.Invalid, "%q is no place in a list of secrets", text)
	}
	return at, nil
}

func (p position) String() string {
	return fmt.Sprintf("%d/%d/%s", p.count, p.created.UnixMicro(), p.last)
}

// read gives the entries after the place, at most limit (0: as many as Barbican gives),
// and the place after them, "" at the end.
func (p position) read(ctx context.Context, client *gophercloud.ServiceClient, limit int) (entries []entry, next string, err error) {
	if limit <= 0 || limit > pageSize {
		limit = pageSize
	}
	// Names settle the order of secrets that were made at one time.
	options := secrets.ListOpts{Mode: Mode, Sort: "created:asc,name:asc"}
	var more bool
	for back := pageSize; ; back *= 2 {
		options.Offset, options.Limit = 0, limit
		if p.count > 0 {
			options.Offset, options.Limit = p.count-1, min(limit+1, pageSize)
		}
		if entries, more, err = page(ctx, client, options); err != nil {
			return nil, "", err
		}
		if p.count == 0 || len(entries) > 0 && p.given(entries[0]) {
			break
		}
		p.count = max(0, p.count-back)
	}
	if more {
		last := entries[len(entries)-1]
		at := position{count: options.Offset + len(entries), created: p.created, last: p.last}
		if !last.created.Before(p.created) {
			at.created, at.last = last.created, last.id
		}
		next = at.String()
	}
	return slices.DeleteFunc(entries, p.given), next, nil
}

// given reports whether an entry was given already, for sure.
func (p position) given(e entry) bool { return e.id == p.last || e.created.Before(p.created) }

// page gives one page of a list, and whether there is another one.
func page(ctx context.Context, client *gophercloud.ServiceClient, options secrets.ListOpts) (entries []entry, more bool, err error) {
	err = secrets.List(client, options).EachPage(ctx, func(_ context.Context, p pagination.Page) (bool, error) {
		if entries, err = entriesOf(p); err != nil {
			return false, err
		}
		next, err := p.NextPageURL()
		more = next != ""
		return false, err
	})
	return entries, more, openstack.Error(err, "list secrets")
}
