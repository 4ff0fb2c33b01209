// Package keystone is a trust.Keeper in OpenStack's Keystone.
//
// Keystone's trusts have no names, but it keeps what else a trust is made with: the
// attribute "strongroom" is the name, and marks the trusts that strongroom made. That
// there is one of a name is Keystone's own doing: it lets no two trusts of the same
// users and project end at the same moment, so the name says when a trust ends, some
// centuries from now.
package keystone

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/trusts"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"strongroom/activities/openstack"
	"strongroom/activities/trust"
	"strongroom/compute"
)

// Cloud is what the adapter needs of a cloud: clients of its identity service.
type Cloud interface {
	// Clients gives those that act as a credential says, of the type "identity".
	// What GetAuthResult of one gives says who it is.
	Clients(serviceType string) openstack.Clients
	// ByTrust gives one that acts in the name of who gave a trust. Forbidden: it is
	// good no more.
	ByTrust(ctx context.Context, serviceType, trustID string) (*gophercloud.ServiceClient, error)
	// User is the id of strongroom's own user.
	User() string
}

// Keeper is a trust.Keeper in Keystone.
type Keeper struct {
	Cloud Cloud
	// Roles are the names of the roles that trusts delegate, of those that their owner
	// has: what servers' keys need, and no more (H2).
	Roles []string
}

var _ trust.Keeper = (*Keeper)(nil)

const identity = "identity"

// attempts bounds how often a Delete looks again, because others make trusts of the
// same name.
const attempts = 20

// Delete implements trust.Keeper. Strongroom's own user sees every trust in it and
// may delete none; the one that it acts with by the trust may, for as long as the
// trust is good, and it needs nobody's token. Who gave it may, always.
func (k *Keeper) Delete(ctx context.Context, in trust.DeleteInput) error {
	if err := in.Check(); err != nil {
		return err
	}
	var refused error
	for range attempts {
		doomed, err := k.picked(ctx, in)
		if err != nil || len(doomed) == 0 {
			return err
		}
		if refused != nil {
			return refused
		}
		for _, t := range doomed {
			if err := k.remove(ctx, in.Credential, t.ID); err != nil && refused == nil {
				refused = err
			}
		}
	}
	return compute.Errorf(compute.Unavailable, "trusts of the name %s are made again and again", in.Name)
}

// picked gives the trusts that are to go.
func (k *Keeper) picked(ctx context.Context, in trust.DeleteInput) ([]trust.Item, error) {
	all, err := k.all(ctx)
	if err != nil {
		return nil, err
	}
	var out []trust.Item
	for _, t := range all {
		switch picked, err := in.Picks(t); {
		case err != nil:
			return nil, err
		case picked:
			out = append(out, t)
		}
	}
	return out, nil
}

// remove ensures that there is no trust of the id.
func (k *Keeper) remove(ctx context.Context, cred compute.Credential, id string) error {
	client, err := k.Cloud.ByTrust(ctx, identity, id)
	if err == nil {
		err = erase(ctx, client, id)
	}
	if !compute.Is(err, compute.Forbidden) {
		return err
	}
	if client, err = k.Cloud.Clients(identity).Client(ctx, cred); err != nil {
		return openstack.Error(err, "log in to the identity service")
	}
	return erase(ctx, client, id)
}

func erase(ctx context.Context, client *gophercloud.ServiceClient, id string) error {
	err := openstack.Error(trusts.Delete(ctx, client, id).ExtractErr(), fmt.Sprintf("delete trust %s", id))
	if compute.Is(err, compute.NotFound) {
		return nil
	}
	return err
}

// List implements trust.Keeper. Keystone gives all trusts at once: it has no pages here.
func (k *Keeper) List(ctx context.Context, in trust.ListInput) (trust.ListResult, error) {
	all, err := k.all(ctx)
	if err != nil {
		return trust.ListResult{}, err
	}
	return in.PartOf(all), nil
}

// all gives the trusts that strongroom made.
func (k *Keeper) all(ctx context.Context) ([]trust.Item, error) {
	client, err := k.Cloud.Clients(identity).Client(ctx, compute.Credential{})
	if err != nil {
		return nil, openstack.Error(err, "log in to the identity service")
	}
	var items []trust.Item
	err = trusts.List(client, trusts.ListOpts{TrusteeUserID: k.Cloud.User()}).EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
		var said struct {
			Trusts []record `json:"trusts"`
		}
		err := page.(trusts.TrustPage).ExtractInto(&said)
		for _, r := range said.Trusts {
			if name, ok := r.Strongroom.(string); ok && name != "" {
				items = append(items, trust.Item{ID: r.ID, Name: name, ProjectID: r.ProjectID, UserID: r.UserID})
			}
		}
		return true, err
	})
	return items, openstack.Error(err, "list trusts")
}

// record is a trust as Keystone lists it.
type record struct {
	ID        string `json:"id"`
	ProjectID string `json:"project_id"`
	UserID    string `json:"trustor_user_id"`
	// Anybody may trust anybody, with any attributes: this one is a text where
	// strongroom made it.
	Strongroom any `json:"strongroom"`
}
