package share

import (
	"context"

	"strongroom/compute"
	"strongroom/durable"
)

// The activities; they run on the cloud queue.
var (
	Look = durable.Activity[LookInput, Share]{Name: "share.Look", Queue: durable.CloudQueue,
		Summary: func(in LookInput) string { return "look at share " + in.Share.String() }}
	Allow = durable.Activity[AllowInput, AllowResult]{Name: "share.Allow", Queue: durable.CloudQueue,
		Summary: func(in AllowInput) string { return "allow access to share " + in.Share.String() }}
	Remove = durable.Activity[compute.Removal, durable.None]{Name: "share.Remove", Queue: durable.CloudQueue,
		Summary: compute.Removal.String}
	Seen = durable.Activity[compute.SeenInput, compute.SeenResult]{Name: "share.Seen", Queue: durable.CloudQueue,
		Summary: func(compute.SeenInput) string { return "list access rules" }}
)

// LookInput asks for a share.
type LookInput struct {
	Credential compute.Credential `json:"credential"`
	Share      ID                 `json:"share_id"`
}

// AllowResult says which rule lets the grantee in.
type AllowResult struct {
	Rule  RuleID `json:"rule_id"`
	State string `json:"state"`
}

// Activities are what workflows call of the service.
type Activities struct{ Service Service }

// Look is the activity share.Look: the share, if it can be mounted now. NotFound;
// Conflict: it cannot (SH-18), or has no export location.
func (a *Activities) Look(ctx context.Context, in LookInput) (Share, error) {
	s, err := a.Service.Get(ctx, in.Credential, in.Share)
	if err != nil {
		return Share{}, err
	}
	if err := s.Check(); err != nil {
		return Share{}, err
	}
	_, err = a.Service.Locations(ctx, in.Credential, in.Share)
	return s, err
}

// Allow is the activity share.Allow.
func (a *Activities) Allow(ctx context.Context, in AllowInput) (AllowResult, error) {
	rule, err := a.Service.Allow(ctx, in)
	return AllowResult{Rule: rule.ID, State: rule.State}, err
}

// Remove is the activity share.Remove: it ensures that a server has no part in any access
// rule of a share. Invalid: the thing's name is none of its kind's; Forbidden: none of the
// credentials may.
func (a *Activities) Remove(ctx context.Context, in compute.Removal) error {
	if in.Thing.Kind != compute.ThingShareAccess {
		return in.Misdirected()
	}
	id, server, err := compute.ParseShareUse(in.Thing.Name)
	if err != nil {
		return err
	}
	return compute.WithAny(in.Credentials, func(cred compute.Credential) error {
		return a.Service.Deny(ctx, DenyInput{Credential: cred, Share: id, Server: server})
	})
}

// Seen is the activity share.Seen: which server has a part in an access rule of which share.
func (a *Activities) Seen(ctx context.Context, in compute.SeenInput) (compute.SeenResult, error) {
	return in.ByProject(func(cred compute.Credential, _ string, _ int) (seen []compute.Seen, next string, err error) {
		rules, err := a.Service.List(ctx, cred)
		for _, r := range rules {
			for _, server := range r.Servers {
				seen = append(seen, compute.Seen{Kind: compute.ThingShareAccess, Name: compute.ShareUse(r.Share, server)})
			}
		}
		return seen, "", err
	})
}

// Register registers the activities.
func (a *Activities) Register(r durable.Registry) {
	Look.Register(r, a.Look)
	Allow.Register(r, a.Allow)
	Remove.Register(r, durable.NoResult(a.Remove))
	Seen.Register(r, a.Seen)
}
