package manila

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"

	"strongroom/activities/openstack"
	"strongroom/activities/share"
	"strongroom/compute"
)

// Allow implements share.Service. Each turn looks at the rules that there are and
// does the one thing that is missing; it is done when nothing is.
func (s *Service) Allow(ctx context.Context, in share.AllowInput) (share.Rule, error) {
	if err := in.Check(); err != nil {
		return share.Rule{}, err
	}
	client, err := s.client(ctx, in.Credential)
	if err != nil {
		return share.Rule{}, err
	}
	found, err := owned(ctx, client, in.Credential, in.Share)
	if err != nil {
		return share.Rule{}, err
	}
	if err := found.Check(); err != nil {
		return share.Rule{}, err
	}
	if err := in.To.CheckFor(found); err != nil {
		return share.Rule{}, err
	}
	if client, err = negotiate(ctx, client); err != nil {
		return share.Rule{}, err
	}
	locker, err := s.locker(ctx, client, in.Share)
	if err != nil {
		return share.Rule{}, err
	}
	a := &allowing{AllowInput: in, client: client, locker: locker, alone: &s.turns[int(in.Share.UUID[0])%len(s.turns)], shown: map[share.RuleID]bool{}}
	var rule share.Rule
	err = s.until(ctx, func(ctx context.Context) (done bool, err error) {
		rule, done, err = a.turn(ctx)
		return done, err
	}, func() string {
		return fmt.Sprintf("the storage does not let %s in to share %s yet: %s", in.To.Kind, in.Share, a.state)
	})
	return rule, err
}

// allowing is one Allow at work.
type allowing struct {
	share.AllowInput
	client  *gophercloud.ServiceClient
	locker  *locker // nil: there are no locks
	alone   *sync.Mutex
	refused error                 // why the last rule was not made
	clashes int                   // how often there were two rules
	skip    int                   // turns to let pass before the next rule is made
	state   string                // of the rule, when last seen
	shown   map[share.RuleID]bool // rules whose locks that hide them were removed
}

// isHidden reports whether a rule of ours is hidden from strongroom: a worker that hid it died before it
// saw that.
func isHidden(d document) bool { return d.ours() && !d.leaving() && d.To == share.Hidden }

// turn is one at a time in this process: to look for a rule and to make one is not
// one step in Manila.
func (a *allowing) turn(ctx context.Context) (rule share.Rule, done bool, err error) {
	a.alone.Lock()
	defer a.alone.Unlock()
	rules, err := rulesOf(ctx, a.client, a.Share)
	if err != nil {
		return rule, false, err
	}
	i := slices.IndexFunc(rules, func(d document) bool { return isHidden(d) && !a.shown[d.ID] })
	if i >= 0 && a.locker != nil {
		a.shown[rules[i].ID] = true // once: it may be a user who hides it
		return rule, false, notYet(a.locker.show(ctx, rules[i].ID))
	}
	rules = slices.DeleteFunc(rules, func(d document) bool { return !a.To.Is(d.grantee()) })
	if len(rules) == 0 {
		a.state = "there is no rule"
		if a.skip > 0 {
			a.skip--
			return rule, false, nil
		}
		return rule, false, a.create(ctx)
	}
	a.refused = nil
	if len(rules) > 1 {
		a.state = fmt.Sprintf("rule %s is %s and rule %s is %s", rules[0].ID, rules[0].State, rules[1].ID, rules[1].State)
		return rule, false, a.startOver(ctx, rules)
	}
	d := rules[0]
	a.state = fmt.Sprintf("rule %s is %s", d.ID, d.State)
	switch {
	case d.leaving():
		return rule, false, nil
	case !d.ours():
		return rule, false, compute.Errorf(compute.Conflict,
			"share %s has an access rule for the same %s that strongroom did not make: %s", a.Share, a.To.Kind, d.ID)
	case d.Level != a.Level:
		return rule, false, compute.Errorf(compute.Conflict, "share %s lets the same %s in already, as %s and not %s: access rule %s",
			a.Share, a.To.Kind, d.Level, a.Level, d.ID)
	case d.rule(a.Share).Gives(a.Level) == share.Refused:
		return rule, false, compute.Errorf(compute.Conflict, "the storage refused access rule %s of share %s; "+
			"the log of manila-share says why (a Ceph user of that name that another project has, a back end that is away)", d.ID, a.Share)
	case !d.names(a.Server):
		return rule, false, notYet(name(ctx, a.client, d.ID, a.Server))
	case d.isClosing(): // whoever removes it has not seen yet that it has a server again
		return rule, false, nil
	}
	rule = d.rule(a.Share)
	if rule.Gives(a.Level) != share.Open {
		return rule, false, nil
	}
	if err := a.lock(ctx, d.ID); err != nil {
		return rule, false, notYet(err)
	}
	return rule, true, nil
}

// lock keeps users from removing the rule and its share, and from seeing its key, where that can be.
func (a *allowing) lock(ctx context.Context, rule share.RuleID) error {
	if a.locker == nil {
		return nil
	}
	return a.locker.lock(ctx, rule, func(ctx context.Context) (bool, error) {
		rules, err := rulesOf(ctx, a.client, a.Share)
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(rules, func(d document) bool { return d.ID == rule })
		if i < 0 {
			return false, compute.Errorf(compute.NotFound, "access rule %s of share %s has gone", rule, a.Share)
		}
		return rules[i].To != share.Hidden, nil
	})
}

// create makes the rule. Somebody else may have been faster: whether that is so,
// the next turn sees.
func (a *allowing) create(ctx context.Context) error {
	if a.refused != nil {
		return a.refused
	}
	err := openstack.Error(shares.GrantAccess(ctx, a.client, a.Share.String(), a).Err, fmt.Sprintf("let %s in to share %s", a.To.Kind, a.Share))
	if compute.Is(err, compute.Invalid) || compute.Is(err, compute.Conflict) {
		a.refused = err
		return nil
	}
	return err
}

// ToGrantAccessMap is the request's body.
func (a *allowing) ToGrantAccessMap() (map[string]any, error) {
	return map[string]any{"allow_access": map[string]any{
		"access_type": a.To.Kind, "access_to": a.To.Name, "access_level": a.Level,
		"metadata": map[string]string{mark: markText, markOf(a.Server): serverText},
	}}, nil
}

// startOver removes rules that were made for one grantee at the same moment: Manila
// looks for one before it makes another, but not in one step. To remove only one
// would shut out the grantee of both, so all that are ours go.
func (a *allowing) startOver(ctx context.Context, rules []document) error {
	for _, d := range rules {
		if d.ours() && !d.leaving() {
			if err := remove(ctx, a.client, a.locker, a.Share, d.ID); err != nil {
				return err
			}
		}
	}
	a.clashes = min(a.clashes+1, 5)
	a.skip = rand.IntN(1 << a.clashes) //nolint:gosec // keeps apart those who clashed
	return nil
}

// notYet drops the error that says that the rule has just gone.
func notYet(err error) error {
	if compute.Is(err, compute.NotFound) {
		return nil
	}
	return err
}
