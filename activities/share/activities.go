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
	Deny = durable.Activity[DenyInput, durable.None]{Name: "share.Deny", Queue: durable.CloudQueue,
		Summary: func(in DenyInput) string { return "deny access to share " + in.Share.String() }}
	Inventory = durable.Activity[InventoryInput, []Rule]{Name: "share.Inventory", Queue: durable.CloudQueue,
		Summary: func(InventoryInput) string { return "list access rules" }}
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

// InventoryInput asks what rules exist.
type InventoryInput struct {
	Credential compute.Credential `json:"credential"`
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

// Deny is the activity share.Deny.
func (a *Activities) Deny(ctx context.Context, in DenyInput) error {
	return a.Service.Deny(ctx, in)
}

// Inventory is the activity share.Inventory.
func (a *Activities) Inventory(ctx context.Context, in InventoryInput) ([]Rule, error) {
	return a.Service.List(ctx, in.Credential)
}

// Register registers the activities.
func (a *Activities) Register(r durable.Registry) {
	Look.Register(r, a.Look)
	Allow.Register(r, a.Allow)
	Deny.Register(r, durable.NoResult(a.Deny))
	Inventory.Register(r, a.Inventory)
}
