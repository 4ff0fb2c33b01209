package api

import (
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const (
	ruleLock           = "os_compute_api:os-lock-server:lock"
	ruleUnlock         = "os_compute_api:os-lock-server:unlock"
	ruleUnlockOverride = "os_compute_api:os-lock-server:unlock:unlock_override"
)

// Who locked a server: an administrator's lock stays until one takes it off.
const (
	lockedByOwner = "owner"
	lockedByAdmin = "admin"
)

var lockBody = validation.Since(func(v microversion.Version) validation.Schema {
	lock := validation.Schema{}
	if v >= 73 {
		lock = validation.Object(nil, validation.Properties{"locked_reason": {"type": "string", "minLength": 1, "maxLength": 255}})
		lock["type"] = []string{"object", "null"}
	}
	return validation.Object([]string{"lock"}, validation.Properties{"lock": lock})
}, 1, 73)

func (a *API) lockAction() Resource {
	return Resource{
		Rules:  policy.Rules{ruleLock: policy.ProjectMemberOrAdmin},
		Routes: []Route{actionRoute("lock", lockBody, a.lockServer)},
	}
}

func (a *API) unlockAction() Resource {
	return Resource{
		Rules:  policy.Rules{ruleUnlock: policy.ProjectMemberOrAdmin, ruleUnlockOverride: policy.Admin},
		Routes: []Route{actionRoute("unlock", bare("unlock"), a.unlockServer)},
	}
}

func (a *API) lockServer(r *Request) (any, error) {
	var body struct{ Lock any }
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	row, err := a.findServer(r, ruleLock)
	if err != nil {
		return nil, err
	}
	s := row.Server
	by := locker(r, s)
	lock := schema.SetServerLockParams{ID: s.ID, LockedBy: &by}
	if object, ok := body.Lock.(map[string]any); ok && r.Version >= 73 {
		if reason, ok := object["locked_reason"].(string); ok {
			lock.LockedReason = &reason
		}
	}
	// An owner's lock does not take the place of an administrator's.
	if deref(s.LockedBy) == lockedByAdmin && by == lockedByOwner {
		lock.LockedBy, lock.LockedReason = s.LockedBy, s.LockedReason
	}
	return a.done(r, compute.Lock.Facts, s, func(q *schema.Queries) (int64, error) { return q.SetServerLock(r.Context(), lock) })
}

func (a *API) unlockServer(r *Request) (any, error) {
	row, err := a.findServer(r, ruleUnlock)
	if err != nil {
		return nil, err
	}
	s := row.Server
	if s.LockedBy != nil && *s.LockedBy != locker(r, s) {
		if err := r.EnforceOn(ruleUnlockOverride, s.ProjectID, s.UserID); err != nil {
			return nil, err
		}
	}
	return a.done(r, compute.Unlock.Facts, s, func(q *schema.Queries) (int64, error) {
		return q.SetServerLock(r.Context(), schema.SetServerLockParams{ID: s.ID})
	})
}

// locker is as whom the caller locks a server.
func locker(r *Request, s schema.Server) string {
	if s.ProjectID == r.ProjectID() {
		return lockedByOwner
	}
	return lockedByAdmin
}
