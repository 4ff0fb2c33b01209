package compute

import (
	"slices"
	"strings"
)

// What a restored database does not know is that a server was shelved, unshelved or moved since.
// Its data are in one place then, which is not the one on record: rows and things of it are
// told, and left to people.

const (
	whyShelvedSince = "it was shelved since: its disks are images NAME-shelved of its project, and its keys open them. Neither rebuild nor delete it"
	whyBodyGone     = "it was shelved since, its keys are there: look for images NAME-shelved in its project before you rebuild or delete it; or its host lost its disks"
	whyUnshelved    = "it was unshelved since, and what kept its data went: its disks are on the host that has its domain. Do not delete it"
	whyUnshelvedNow = "it was unshelved since, on this host: its data are here alone. Do not delete it"
	whyMovedAway    = "it was moved or evacuated since: its data are on the host that has its domain. Neither reboot, rebuild nor delete it"
	whyMovedHere    = "it was moved or evacuated since, to this host: its data are here alone. Do not delete it"
	whyTwoHosts     = "it was moved or evacuated since, or a move to this host was under way: see on which host its guest runs before you start or delete it"
	whyStartedHere  = "it was unshelved since, where it was: unshelve it"
)

// whyMoved says of a row whose thing is gone that the server was shelved, unshelved or moved to
// another host since; "": it was not, as far as is known.
func (r *repairer) whyMoved(s KnownServer, t Thing, missing []Thing) string {
	switch {
	case s.Server.isKeptAs(t) && s.Server.Host != nil:
		return whyStartedHere
	case s.Server.isKeptAs(t):
		return whyUnshelved
	case !t.OnHost() || s.Server.Host == nil || s.Server.IsShelved() || !s.bodyGone(missing):
		return ""
	case slices.ContainsFunc(r.unowned[s.Server.ID], s.Server.isBodyElsewhere):
		return whyMovedAway
	case slices.ContainsFunc(r.unowned[s.Server.ID], func(f Finding) bool { return f.Kind == ThingObject && !isTPMBackup(f.Name) }):
		return strings.ReplaceAll(whyShelvedSince, "NAME", s.Server.Name)
	case slices.ContainsFunc(s.Has, func(t Thing) bool { return t.Kind == ThingKeySecret }):
		return strings.ReplaceAll(whyBodyGone, "NAME", s.Server.Name)
	}
	return ""
}

// whyFound says of a thing without a row that the server was shelved, unshelved or moved to another
// host since; "": it was not, as far as is known.
func (r *repairer) whyFound(s KnownServer, f Finding) string {
	switch {
	case f.Kind == ThingObject && !isTPMBackup(f.Name) && !s.Server.IsShelved():
		return strings.ReplaceAll(whyShelvedSince, "NAME", s.Server.Name)
	case f.Kind != ThingKeySecret && f.Kind != ThingTrust && f.Kind != ThingObject && s.Server.IsShelved() && s.Server.Host == nil:
		return whyUnshelvedNow
	case !s.Server.isBodyElsewhere(f):
		return ""
	case s.bodyGone(r.missing[s.Server.ID]):
		return whyMovedHere
	}
	return whyTwoHosts
}

// isBodyElsewhere reports whether a thing is what the server is made of, on another host than its
// own.
func (s Server) isBodyElsewhere(f Finding) bool {
	t := Thing{Kind: f.Kind, Place: f.Place, Name: f.Name}
	host, onHost := t.Host()
	return onHost && s.Host != nil && host != *s.Host && s.Uses(host, t)
}

// isKeptAs reports whether a thing keeps data of the server while it is shelved.
func (s Server) isKeptAs(t Thing) bool {
	switch t.Kind {
	case ThingImage:
		return slices.ContainsFunc(s.Disks, func(d Disk) bool { return d.Shelved != nil && d.Shelved.Image.String() == t.Name })
	case ThingObject:
		return s.IsStoredIn(t.Name)
	}
	return false
}

// bodyGone reports whether the server's domain and all of its disks are missing on its host.
func (s KnownServer) bodyGone(missing []Thing) bool {
	body := false
	for _, t := range s.Has {
		if t.Kind != ThingDomain && t.Kind != ThingDiskFile {
			continue
		}
		if !slices.ContainsFunc(missing, func(m Thing) bool { return m.ID == t.ID }) {
			return false
		}
		body = true
	}
	return body
}
