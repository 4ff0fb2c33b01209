// Package trust keeps what owners of servers delegate: trusts in the identity
// service, by which strongroom may act in an owner's name for as long as his
// server lives (flavors whose keys are of the mode "host").
//
// Keeper is the port; each adapter lives in a folder of its own and passes the
// suite in trusttest.
package trust

import (
	"cmp"
	"context"
	"slices"

	"strongroom/compute"
)

// Keeper is where trusts are. All methods may be called at once, also from several
// processes.
type Keeper interface {
	// Create ensures one trust of this name, from the credential's user to
	// strongroom's own, impersonating, in the credential's project and with all
	// roles that the token has there. It gives the trust's id. Two calls at once
	// make one trust. Forbidden: the credential cannot delegate.
	Create(ctx context.Context, in CreateInput) (id string, err error)
	// Delete ensures that no trust of this name, and of this id where it is known,
	// is left. One that is not there is a success. Forbidden: the credential may not.
	Delete(ctx context.Context, in DeleteInput) error
	// List gives a part of the trusts in strongroom's own user that strongroom made, by
	// their ids in order: a marker is the last id.
	List(ctx context.Context, in ListInput) (ListResult, error)
}

// CreateInput asks for a trust.
type CreateInput struct {
	Credential compute.Credential `json:"credential"` // the owner's token
	Name       string             `json:"name"`
}

// CreateResult says which trust it is. Its id is of no use to anybody but
// strongroom's own user.
type CreateResult struct {
	Trust string `json:"trust"`
}

// DeleteInput names the trust to remove.
type DeleteInput struct {
	Credential compute.Credential
	Name       string
	ID         string // "" where it is not known
}

// ListInput asks for a part of a list.
type ListInput struct {
	Marker string // "": from the beginning; else ListResult.Next of the part before
	Limit  int    // how many at most; 0: all
}

// ListResult is a part of a list.
type ListResult struct {
	Items []Item
	Next  string // "": that is all
}

// Item is a trust as the audit sees it.
type Item struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	ProjectID string `json:"project_id"`
	UserID    string `json:"user_id"` // who delegated
}

// PartOf cuts the part that is asked for out of all trusts, for keepers that cannot.
func (in ListInput) PartOf(all []Item) ListResult {
	all = slices.DeleteFunc(all, func(t Item) bool { return t.ID <= in.Marker })
	slices.SortFunc(all, func(a, b Item) int { return cmp.Compare(a.ID, b.ID) })
	if in.Limit <= 0 || len(all) <= in.Limit {
		return ListResult{Items: all}
	}
	return ListResult{Items: all[:in.Limit], Next: all[in.Limit-1].ID}
}
