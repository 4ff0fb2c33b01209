package api

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"strongroom/compute"
)

// The network service is asked again for the name of a security group once a minute, and no answer waits longer for names
// than two seconds. One that does not answer is left alone for ten.
const (
	mostGroupNames  = 10_000
	groupNamedFor   = time.Minute
	groupNamesWait  = 2 * time.Second
	groupNamesPause = 10 * time.Second
)

// groupNames are the names of security groups, as the network service told them.
type groupNames struct {
	known *lru.Cache[groupSeenBy, toldGroup]
	again atomic.Pointer[time.Time] // when it may be asked next; nil: now
}

// groupSeenBy is a security group as the administrators of a project see it, or its other users.
type groupSeenBy struct {
	id      compute.SecurityGroupID
	project string
	admin   bool
}

// toldGroup is what was told of a security group. It is asked for again after until, and holds while there is no answer.
type toldGroup struct {
	name  string
	seen  bool // else it is not for them to see
	until time.Time
}

func newGroupNames() *groupNames {
	known, _ := lru.New[groupSeenBy, toldGroup](mostGroupNames) // fails for a size below one
	return &groupNames{known: known}
}

// groupNames gives what the requester sees the security groups of servers' ports called. Those that the network service
// does not tell are left out.
func (a *API) groupNames(r *Request, servers ...[]compute.Network) map[compute.SecurityGroupID]string {
	names := map[compute.SecurityGroupID]string{}
	if a.config.Networks == nil {
		return names
	}
	now, by := a.config.Now(), groupSeenBy{project: r.ProjectID(), admin: r.IsAdmin()}
	due := map[compute.SecurityGroupID]bool{}
	for _, networks := range servers {
		for _, id := range securedBy(networks) {
			by.id = id
			group, told := a.named.known.Get(by)
			if told && group.seen {
				names[id] = group.name
			}
			if !told || now.After(group.until) {
				due[id] = true
			}
		}
	}
	if again := a.named.again.Load(); len(due) == 0 || again != nil && now.Before(*again) {
		return names
	}
	ctx, cancel := context.WithTimeout(r.Context(), groupNamesWait)
	defer cancel()
	told, err := a.config.Networks.GroupNames(ctx, r.Credential(), slices.Collect(maps.Keys(due)))
	if err != nil {
		a.config.Logger.WarnContext(ctx, "the names of security groups cannot be read: those that are known are shown", "error", err)
	}
	if err != nil && r.Context().Err() == nil && compute.Is(err, compute.Unavailable) {
		later := now.Add(groupNamesPause)
		a.named.again.Store(&later)
	}
	for id := range due {
		by.id = id
		name, seen := told[id]
		if !seen && err != nil { // it may be one of those that were not told
			continue
		}
		a.named.known.Add(by, toldGroup{name, seen, now.Add(groupNamedFor)})
		delete(names, id)
		if seen {
			names[id] = name
		}
	}
	return names
}

// securedBy gives the security groups that the ports of a server have.
func securedBy(networks []compute.Network) (all []compute.SecurityGroupID) {
	for _, n := range networks {
		if n.Port != nil {
			all = append(all, n.Port.Secured...)
		}
	}
	return all
}

// securityGroups are those that a server's ports have, as they stand in a server.
func securityGroups(networks []compute.Network, named map[compute.SecurityGroupID]string) []map[string]string {
	return viewGroupNames(compute.GroupsCalled(networks, named))
}

// viewGroupNames are the names of security groups as they stand in a server.
func viewGroupNames(names []string) []map[string]string {
	out := []map[string]string{}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		out = append(out, map[string]string{"name": name})
	}
	return out
}
