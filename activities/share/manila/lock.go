package manila

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/gophercloud/gophercloud/v2"

	"strongroom/activities/openstack"
	"strongroom/activities/share"
	"strongroom/compute"
)

// locker makes and removes locks (SH-08, SH-09). They are those of strongroom's own user, who has the role
// service: a lock that is made with a rule, in the name of who attaches the share, hides the rule from all
// others of his project and keeps them from removing it, also when strongroom acts for them.
type locker struct {
	client *gophercloud.ServiceClient
	share  share.ID
	hidden *atomic.Bool // from strongroom, too: Service.hidden
}

// locker gives what makes locks on a share; nil where the service is too old for locks.
func (s *Service) locker(ctx context.Context, client *gophercloud.ServiceClient, id share.ID) (*locker, error) {
	if !locks(client) {
		return nil, nil
	}
	shared, err := s.Clients.Client(ctx, compute.DeploymentCredential())
	if err != nil {
		return nil, openstack.Error(err, "log in to the shared file systems service as strongroom's own user")
	}
	own := *shared
	own.Microversion = withLocks
	return &locker{client: &own, share: id, hidden: &s.hidden}, nil
}

// What a lock is on, and what it keeps users from.
const (
	onShare, onRule       = "share", "access_rule"
	fromDelete, fromShown = "delete", "show"
	// A lock says for which rule it is there. So those of a share are told apart.
	lockReason = "strongroom: servers use access rule "
)

// lockDocument is a lock in Manila's words.
type lockDocument struct {
	ID     string `json:"id"`
	Action string `json:"resource_action"`
	Reason string `json:"lock_reason"`
}

// rule is the rule for which strongroom made the lock; false: somebody else made it.
func (d lockDocument) rule() (rule string, ours bool) { return strings.CutPrefix(d.Reason, lockReason) }

// of gives strongroom's locks on a share or a rule: of its own project alone, for anybody can make locks in
// his, and say in them what he likes.
func (l *locker) of(ctx context.Context, resource string) ([]lockDocument, error) {
	var answer struct {
		Locks []lockDocument `json:"resource_locks"`
	}
	address := l.client.ServiceURL("resource-locks") + "?" + url.Values{"resource_id": {resource}}.Encode()
	response, err := l.client.Get(ctx, address, &answer, nil)
	if response != nil {
		response.Body.Close()
	}
	return slices.DeleteFunc(answer.Locks, func(d lockDocument) bool {
		_, ours := d.rule()
		return !ours
	}), openstack.Error(err, fmt.Sprintf("list the locks of share %s", l.share))
}

func (l *locker) create(ctx context.Context, kind, resource, action string, rule share.RuleID) error {
	body := map[string]any{"resource_lock": map[string]any{
		"resource_type": kind, "resource_id": resource, "resource_action": action, "lock_reason": lockReason + rule.String(),
	}}
	response, err := l.client.Post(ctx, l.client.ServiceURL("resource-locks"), body, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK, http.StatusCreated, http.StatusAccepted}})
	if response != nil {
		response.Body.Close()
	}
	if err = openstack.Error(err, fmt.Sprintf("lock access rule %s of share %s", rule, l.share)); compute.Is(err, compute.Forbidden) {
		err = compute.Errorf(compute.Forbidden, "%w: strongroom's own user needs the role service", err)
	}
	return err
}

func (l *locker) remove(ctx context.Context, lock lockDocument) error {
	response, err := l.client.Delete(ctx, l.client.ServiceURL("resource-locks", lock.ID), nil)
	if response != nil {
		response.Body.Close()
	}
	return notYet(openstack.Error(err, fmt.Sprintf("remove lock %s of share %s", lock.ID, l.share)))
}

// lock makes sure that nobody but strongroom and administrators removes a rule or its share, and that users do
// not see whom the rule lets in, nor its key. It is hidden from whoever acts for them, too, unless the service
// lets those see it who show strongroom's service token beside a user's: seen, of a rule that has just been
// hidden, says whether it does. Where it does not, the rule is not hidden, nor is any other by this process.
func (l *locker) lock(ctx context.Context, rule share.RuleID, seen func(ctx context.Context) (bool, error)) error {
	if _, err := l.ensure(ctx, onShare, l.share.String(), fromDelete, rule); err != nil {
		return err
	}
	made, err := l.ensure(ctx, onRule, rule.String(), fromDelete, rule)
	if err != nil {
		return err
	}
	if l.hidden.Load() {
		return l.dropOf(ctx, made, isShown)
	}
	if slices.ContainsFunc(made, isShown) { // and whoever looks for the rule saw it all the same
		return nil
	}
	if err := l.create(ctx, onRule, rule.String(), fromShown, rule); err != nil {
		if compute.Is(err, compute.Conflict) { // a user hid it; nobody else can
			return nil
		}
		return err
	}
	ok, err := seen(ctx)
	if err != nil || ok {
		return err
	}
	return l.show(ctx, rule)
}

// show makes sure that strongroom does not hide a rule, nor any other in this process: it was hidden from
// strongroom, too.
func (l *locker) show(ctx context.Context, rule share.RuleID) error {
	l.hidden.Store(true)
	return l.drop(ctx, rule.String(), isShown)
}

// ensure makes sure that there is a lock for a rule, and gives strongroom's that were there.
func (l *locker) ensure(ctx context.Context, kind, resource, action string, rule share.RuleID) (made []lockDocument, err error) {
	if made, err = l.of(ctx, resource); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(made, func(d lockDocument) bool { of, _ := d.rule(); return of == rule.String() && d.Action == action }) {
		err = l.create(ctx, kind, resource, action, rule)
	}
	return made, err
}

func isShown(d lockDocument) bool { return d.Action == fromShown }

// unlock lets a rule be removed.
func (l *locker) unlock(ctx context.Context, rule share.RuleID) error {
	return l.drop(ctx, rule.String(), func(d lockDocument) bool { return d.Action == fromDelete })
}

// release removes the locks of the share whose rules are not there any more. It looks for rules after it has
// looked for locks: a rule is there before its lock is.
func (l *locker) release(ctx context.Context, rules func(ctx context.Context) ([]document, error)) error {
	made, err := l.of(ctx, l.share.String())
	if err != nil || len(made) == 0 {
		return err
	}
	there, err := rules(ctx)
	if err != nil {
		return notYet(err)
	}
	return l.dropOf(ctx, made, func(d lockDocument) bool {
		of, _ := d.rule()
		return !slices.ContainsFunc(there, func(r document) bool { return r.ID.String() == of })
	})
}

// drop removes those of strongroom's locks on a share or a rule that are to go.
func (l *locker) drop(ctx context.Context, resource string, goes func(lockDocument) bool) error {
	made, err := l.of(ctx, resource)
	if err != nil {
		return err
	}
	return l.dropOf(ctx, made, goes)
}

func (l *locker) dropOf(ctx context.Context, made []lockDocument, goes func(lockDocument) bool) error {
	for _, d := range made {
		if goes(d) {
			if err := l.remove(ctx, d); err != nil {
				return err
			}
		}
	}
	return nil
}
