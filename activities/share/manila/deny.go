package manila

import (
	"context"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"

	"strongroom/activities/openstack"
	"strongroom/activities/share"
	"strongroom/compute"
)

// Deny implements share.Service.
func (s *Service) Deny(ctx context.Context, in share.DenyInput) error {
	client, err := s.client(ctx, in.Credential)
	if err != nil {
		return err
	}
	if _, err := owned(ctx, client, in.Credential, in.Share); err != nil {
		return notYet(err)
	}
	if client, err = negotiate(ctx, client); err != nil {
		return err
	}
	locker, err := s.locker(ctx, client, in.Share)
	if err != nil {
		return err
	}
	d := &denying{DenyInput: in, client: client, locker: locker, asked: map[share.RuleID]bool{}, parted: map[share.RuleID]bool{}}
	return s.until(ctx, d.turn, func() string { return fmt.Sprintf("access to share %s is not gone yet: %s", in.Share, d.state) })
}

// denying is one Deny at work.
type denying struct {
	share.DenyInput
	client *gophercloud.ServiceClient
	locker *locker               // nil: there are no locks
	asked  map[share.RuleID]bool // rules whose removal was asked for
	parted map[share.RuleID]bool // rules that named the server
	state  string                // of a rule that is left, when last seen
}

func (d *denying) turn(ctx context.Context) (done bool, err error) {
	rules, err := rulesOf(ctx, d.client, d.Share)
	if err != nil {
		return compute.Is(err, compute.NotFound), notYet(err)
	}
	done = true
	for _, r := range slices.DeleteFunc(rules, func(r document) bool { return !d.meant(r) }) {
		if d.needed(r) {
			left, err := d.leave(ctx, r)
			if err != nil {
				return false, err
			}
			done = done && left
			continue
		}
		done = false
		d.state = fmt.Sprintf("rule %s is %s", r.ID, r.State)
		if err := d.close(ctx, r); err != nil {
			return false, err
		}
	}
	if done {
		return true, d.release(ctx)
	}
	return false, nil
}

// release removes the locks of the share whose rules are gone.
func (d *denying) release(ctx context.Context) error {
	if d.locker == nil {
		return nil
	}
	return d.locker.release(ctx, func(ctx context.Context) ([]document, error) { return rulesOf(ctx, d.client, d.Share) })
}

// leave takes the server out of a rule that others have too. They may leave at the same moment:
// only a look that finds them there afterwards says that it is left to them.
func (d *denying) leave(ctx context.Context, r document) (left bool, err error) {
	if r.isClosingFor(d.Server) {
		return false, erase(ctx, d.client, r.ID, closingOf(d.Server), "keep")
	}
	if !r.names(d.Server) {
		return true, nil
	}
	d.parted[r.ID] = true
	return false, unname(ctx, d.client, r.ID, d.Server)
}

// close removes a rule that no other server has, nor gets at the same moment.
func (d *denying) close(ctx context.Context, r document) error {
	if r.leaving() || d.asked[r.ID] {
		return d.remove(ctx, r)
	}
	if err := note(ctx, d.client, r.ID, map[string]string{closingOf(d.Server): closingText}, "say that it goes"); err != nil {
		return notYet(err)
	}
	rules, err := rulesOf(ctx, d.client, d.Share)
	if err != nil {
		return notYet(err)
	}
	i := slices.IndexFunc(rules, func(now document) bool { return now.ID == r.ID })
	if i < 0 || d.needed(rules[i]) { // the next turn sees what is to be done
		return nil
	}
	return d.remove(ctx, rules[i])
}

// meant reports whether a rule is one to let go of: a rule of ours that names the
// server, or nobody any more, and lets in whom it should. Where a lock hides the grantee, the
// lock's names must say who it is. An attempt that was cut off may have left its mark: a server
// that came since waits until that is gone.
func (d *denying) meant(r document) bool {
	if d.Rule != nil && r.ID == *d.Rule {
		return true
	}
	if d.parted[r.ID] || r.isClosingFor(d.Server) {
		return true
	}
	known := d.To == nil || d.To.Is(r.grantee())
	return r.names(d.Server) && (known || r.To == share.Hidden) || known && r.ours() && len(r.servers()) == 0
}

// needed reports whether other servers have the rule too.
func (d *denying) needed(r document) bool {
	return slices.ContainsFunc(r.servers(), func(other compute.ServerID) bool { return other != d.Server })
}

func (d *denying) remove(ctx context.Context, r document) error {
	switch {
	case r.leaving():
		return nil
	case r.State == share.StateError && d.asked[r.ID]:
		return compute.Errorf(compute.Conflict, "the storage could not forget access rule %s of share %s; the log of manila-share says why", r.ID, d.Share)
	}
	d.asked[r.ID] = true
	return remove(ctx, d.client, d.locker, d.Share, r.ID)
}

// remove asks that a rule goes, with strongroom's locks on it; it is no error when it has gone.
func remove(ctx context.Context, client *gophercloud.ServiceClient, locker *locker, id share.ID, rule share.RuleID) error {
	if locker != nil {
		if err := locker.unlock(ctx, rule); err != nil {
			return err
		}
	}
	err := openstack.Error(shares.RevokeAccess(ctx, client, id.String(), removal{rule, locks(client)}).Err, fmt.Sprintf("remove access rule %s of share %s", rule, id))
	if compute.Is(err, compute.Invalid) {
		// The share moves, or lost its back end: another state, not a wrong request.
		err = compute.Errorf(compute.Conflict, "%w", err)
	}
	return notYet(err)
}

// removal is the request to remove a rule.
type removal struct {
	rule     share.RuleID
	unlocked bool
}

// ToRevokeAccessMap is the request's body.
func (r removal) ToRevokeAccessMap() (map[string]any, error) {
	rule := map[string]any{"access_id": r.rule.String()}
	if r.unlocked {
		rule["unrestrict"] = true
	}
	return map[string]any{"deny_access": rule}, nil
}
