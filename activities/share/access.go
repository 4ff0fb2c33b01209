package share

import (
	"slices"

	"strongroom/compute"
)

// The states of a rule that the storage obeys, could not obey, and is about to forget. Any other
// is that of a rule which the storage is at work on.
const (
	StateActive       = "active"
	StateError        = "error"
	StateQueuedToDeny = "queued_to_deny"
	StateDenying      = "denying"
)

// Access is what a share's rules are to a host.
type Access string

// Whether a host has the share.
const (
	Shut     Access = "shut"     // no rule lets it in
	Refused  Access = "refused"  // there is a rule that the storage could not obey
	Changing Access = "changing" // the storage is at work on a rule: it will be known later
	Open     Access = "open"
)

// accesses are all of them, the better the later.
var accesses = []Access{Shut, Refused, Changing, Open}

// Gives says what a rule is to whom it is for, at a level.
func (r Rule) Gives(level Level) Access {
	switch {
	case r.Level != level, r.State == StateQueuedToDeny, r.State == StateDenying:
		return Shut
	case r.State == StateError:
		return Refused
	case r.State == StateActive:
		return Open
	}
	return Changing
}

// Hidden is what the service writes in the place of what a lock hides from the reader.
const Hidden = "******"

// isFor reports whether the rule is one by which a host has the share for a server. Where a
// lock hides from the reader whom it lets in, and where a host may have had another address, the servers
// that it names say so.
func (r Rule) isFor(server compute.ServerID, to Grantee) bool {
	return to.Is(r.To) || (to.Kind == Address || r.To.Name == Hidden) && slices.Contains(r.Servers, server)
}

// AccessBy says what all rules of a share are to a host, for one of its servers.
func AccessBy(rules []Rule, server compute.ServerID, to Grantee, level Level) Access {
	best := 0
	for _, r := range rules {
		if r.isFor(server, to) {
			best = max(best, slices.Index(accesses, r.Gives(level)))
		}
	}
	return accesses[best]
}

// Looked is what a look at shares saw of each of them. Of one that is in none of these the service
// was not asked.
type Looked struct {
	There  map[ID][]Rule // with all access rules, those too that strongroom did not make
	Gone   map[ID]bool   // or not the project's
	Failed map[ID]error  // the service was asked and said neither
	Silent bool          // it gave no answer to the last of those, or to any: it may be away
}

// mostSilent is for how many shares in a row there may be no answer before the service is asked for no
// other: one that is away would be waited for each time.
const mostSilent = 3

// LookAt asks for the rules of shares, one after the other; rules gives those of one, or NotFound. What
// the service says to one share keeps no other waiting, as long as it answers. Forbidden: it lets the
// credential see none of them; Failed says so of each, unlike where it does not list shares at all.
func LookAt(ids []ID, rules func(ID) ([]Rule, error)) (Looked, error) {
	l := Looked{There: map[ID][]Rule{}, Gone: map[ID]bool{}, Failed: map[ID]error{}}
	refused, silent := 0, 0
	var err error
	for _, id := range ids {
		var got []Rule
		silent++
		switch got, err = rules(id); {
		case err == nil:
			l.There[id] = got
		case compute.Is(err, compute.NotFound):
			l.Gone[id] = true
		default:
			l.Failed[id] = err
		}
		if compute.Is(err, compute.Forbidden) {
			refused++
		}
		if !compute.Is(err, compute.Unavailable) {
			silent = 0
		}
		if silent == mostSilent {
			break
		}
	}
	if refused > 0 && refused == len(ids) {
		return l, err
	}
	l.Silent = len(ids) > 0 && silent == min(mostSilent, len(ids))
	return l, nil
}
